"""Operators of streams and tables: functions are checked, and what they return is inferred, from source to sink."""

from __future__ import annotations

from typing import Any, assert_type

import penstock as ps

builder = ps.StreamsBuilder()
lines = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
users = builder.table("users", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.long()))

assert_type(lines, ps.KStream[str, str])
assert_type(users, ps.KTable[str, int])
assert_type(builder.stream("anything"), ps.KStream[Any, Any])

assert_type(lines.filter(lambda key, value: key < value), ps.KStream[str, str])
assert_type(lines.filter(lambda value: value.isalpha()), ps.KStream[str, str])
assert_type(lines.filter(str.isalpha), ps.KStream[str, str])
assert_type(lines.filter(bool), ps.KStream[str, str])
assert_type(lines.filter_not(lambda value: value.isalpha(), named="no-letters"), ps.KStream[str, str])
assert_type(lines.map_values(len), ps.KStream[str, int])
assert_type(lines.map_values(lambda value: len(value)), ps.KStream[str, int])
assert_type(lines.map_values(lambda key, value: len(key) / 2), ps.KStream[str, float])
assert_type(lines.flat_map_values(str.split), ps.KStream[str, str])
assert_type(lines.flat_map_values(lambda value: value.split()), ps.KStream[str, str])
assert_type(lines.map(lambda key, value: (len(key), value.encode())), ps.KStream[int, bytes])
assert_type(lines.flat_map(lambda key, value: [(len(key), value)]), ps.KStream[int, str])
assert_type(lines.select_key(lambda key, value: len(value)), ps.KStream[int, str])
assert_type(lines.select_key(lambda value: value.encode()), ps.KStream[bytes, str])
assert_type(lines.select_key(len), ps.KStream[int, str])
assert_type(lines.group_by(lambda value: len(value)), ps.KGroupedStream[int, str])
assert_type(lines.group_by(len).count(), ps.KTable[int, int])
assert_type(lines.group_by(lambda key, value: len(key) / 2), ps.KGroupedStream[float, str])
assert_type(users.to_stream(lambda value: value / 2), ps.KStream[float, int])
assert_type(users.to_stream(lambda key, value: key.encode()), ps.KStream[bytes, int])

branches = lines.split().branch(lambda key, value: value == key, ps.Branched.as_("same")).default_branch()
assert_type(branches, dict[str, ps.KStream[str, str]])
lines.split().branch(lambda value: value > "m").branch(str.isalpha, ps.Branched.as_("letters")).default_branch()
lines.split().branch(lambda key, value: value > key, ps.Branched.with_function(lambda branch: branch.map_values(len)))
lines.split().branch(lambda key, value: key > "m", ps.Branched.with_consumer(lambda branch: branch.to("late")))

assert_type(lines.merge(lines.map_values(str.upper)), ps.KStream[str, str])
assert_type(lines.filter_not(lambda key, value: not value, named="not-empty"), ps.KStream[str, str])
assert_type(lines.peek(lambda key, value: print(key, len(value))), ps.KStream[str, str])
assert_type(lines.peek(lambda value: print(len(value))), ps.KStream[str, str])
assert_type(lines.peek(print), ps.KStream[str, str])
lines.for_each(lambda key, value: print(key.upper(), value.upper()))
lines.for_each(lambda value: print(value.upper()))
lines.for_each(print)
assert_type(lines.repartition(ps.Repartitioned.with_(ps.Serdes.string(), ps.Serdes.string())), ps.KStream[str, str])
assert_type(lines.repartition(ps.Repartitioned.as_("again").with_number_of_partitions(8)), ps.KStream[str, str])

lines.to("out")
lines.to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))
lines.to("out", ps.Produced.with_(value_serde=ps.Serdes.string()))
lines.to("out", ps.Produced.as_("sink").with_key_serde(ps.Serdes.string()))
lines.to(lambda key, value, context: f"out-{context.partition}")


def shortened(line: str | None) -> str | None:
    return line and line[:3]


# Serdes never see None, so that of text is right for text or None.
lines.map_values(shortened).to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))
lines.map_values(shortened).to("out")
