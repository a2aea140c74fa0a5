"""Faults in deduplicating and in rows that expire: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

text, number = ps.Serdes.string(), ps.Serdes.long()
orders = ps.StreamsBuilder().stream("orders", ps.Consumed.with_(text, number))
of_text: ps.Deduplicated[str, str, str] = ps.Deduplicated.as_("seen")

orders.deduplicate()  # error
orders.deduplicate("5 s")  # error
orders.deduplicate(5, lambda value: value.upper())  # error
orders.deduplicate(5, lambda key, value, more: key)  # error
orders.deduplicate(5, deduplicated=of_text)  # error
orders.deduplicate(5, deduplicated=ps.Materialized.as_("seen"))  # error
orders.deduplicate(5).map_values(lambda value: value.upper())  # error
ps.Deduplicated.as_("seen").with_retention("1 h")  # error
ps.Deduplicated.as_("seen").with_id_serde(str)  # error
ps.Materialized.as_("counts").with_ttl("1 d")  # error
ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store("s"), text, text).with_ttl(5)  # error
