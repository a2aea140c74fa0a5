"""Faults in versioned tables and stores: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

string, long = ps.Serdes.string(), ps.Serdes.long()
builder = ps.StreamsBuilder()
prices = builder.table("prices", ps.Consumed.with_(string, long))
orders = builder.stream("orders", ps.Consumed.with_(string, string))

patient, wrong = ps.Joined.with_(string, string, long), ps.Joined.with_(string, long, long)
orders.join(prices, lambda order, price: price.upper(), patient.with_grace_period(5))  # error
orders.join(prices, lambda order, price: order, wrong.with_grace_period(5))  # error
ps.Joined.with_(string, string, long).with_grace_period("5 min")  # error
ps.Stores.versioned_key_value_store_builder(ps.Stores.in_memory_key_value_store("history"), string, long)  # error


def correct(history: ps.VersionedKeyValueStore[str, int]) -> None:
    history.put("k", "v", 5)  # error
    history.put("k", 1)  # error
    history.put("k", 1, None)  # error
    print(history.get("k").value)  # error
    history.get(7)  # error
    (history.get("k", 5) or ps.VersionedRecord(0, 0)).value.upper()  # error
