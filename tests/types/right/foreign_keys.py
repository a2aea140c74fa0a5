"""The types that are inferred for tables that are joined, by primary and by foreign key."""

from __future__ import annotations

from typing import assert_type

import penstock as ps

builder = ps.StreamsBuilder()
orders = builder.table("orders", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.double()))
people = builder.table("people", ps.Consumed.with_(ps.Serdes.long(), ps.Serdes.string()))
notes = builder.table("notes", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))

assert_type(orders.join(notes, lambda order, note: note[: int(order)]), ps.KTable[str, str])
assert_type(orders.left_join(notes, lambda order, note: note), ps.KTable[str, str | None])
assert_type(
    orders.join(people, lambda order: int(order), lambda order, name: (order, name)), ps.KTable[str, tuple[float, str]]
)
assert_type(orders.join(people, lambda key, order: len(key), lambda order, name: name.upper()), ps.KTable[str, str])
assert_type(
    orders.left_join(people, lambda key, order: len(key) + int(order), lambda order, name: name or "nobody"),
    ps.KTable[str, str],
)
assert_type(orders.left_join(people, lambda order: None, lambda order, name: name), ps.KTable[str, str | None])
assert_type(
    orders.left_join(people, lambda order: 7, lambda order, name: name or "nobody", ps.TableJoined.as_("named")),
    ps.KTable[str, str],
)
assert_type(
    orders.join(
        people,
        foreign_key_extractor=lambda order: int(order),
        joiner=lambda order, name: order,
        table_joined=ps.TableJoined.with_(lambda topic, key, value, partitions: 0),
        materialized=ps.Materialized.as_("joined"),
    ),
    ps.KTable[str, float],
)
named: ps.Materialized[str, str] = ps.Materialized.as_("joined")
assert_type(orders.left_join(people, lambda order: 7, lambda order, name: name or "nobody", named), ps.KTable[str, str])
assert_type(orders.join(people, lambda order: 7, lambda order, name: name, named), ps.KTable[str, str])
