"""Deduplication and rows that expire: keys and values stay what they were."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import penstock as ps

text, number = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
orders = builder.stream("orders", ps.Consumed.with_(text, number))

assert_type(orders.deduplicate(timedelta(minutes=5)), ps.KStream[str, int])
assert_type(orders.deduplicate(5, deduplicated=ps.Deduplicated.as_("seen")), ps.KStream[str, int])
assert_type(orders.deduplicate(5, lambda value: value + 1), ps.KStream[str, int])
assert_type(orders.deduplicate(5, lambda key, value: key.upper() + str(value)), ps.KStream[str, int])
assert_type(orders.deduplicate(5, lambda value: None if value < 0 else value), ps.KStream[str, int])
by_id = ps.Deduplicated.with_(text, number, text).with_retention(timedelta(hours=1)).with_name("once")
assert_type(by_id, ps.Deduplicated[str, int, str])
assert_type(orders.deduplicate(5, lambda value: str(value), by_id), ps.KStream[str, int])
assert_type(orders.deduplicate(5, str, ps.Deduplicated.as_("others").with_id_serde(text)), ps.KStream[str, int])

grouped = orders.group_by_key()
assert_type(grouped.count(ps.Materialized.as_("counts").with_ttl(timedelta(days=1))), ps.KTable[str, int])
assert_type(
    builder.table("t", ps.Consumed.with_(text, text), ps.Materialized.as_("t").with_ttl(5)), ps.KTable[str, str]
)
kept: ps.Materialized[str, int] = ps.Materialized.as_("kept")
assert_type(kept.with_ttl(5), ps.Materialized[str, int])
supplier = ps.Stores.persistent_key_value_store("rows")
store: ps.StoreBuilder[str, int] = ps.Stores.timestamped_key_value_store_builder(supplier, text, number).with_ttl(5)
