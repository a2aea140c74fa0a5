"""A program that mypy --strict must accept and whose types it must infer; run by nobody, checked by test_typing."""

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
assert_type(lines.map_values(len), ps.KStream[str, int])
assert_type(lines.map_values(lambda value: len(value)), ps.KStream[str, int])
assert_type(lines.map_values(lambda key, value: len(key) / 2), ps.KStream[str, float])
assert_type(lines.flat_map_values(str.split), ps.KStream[str, str])
assert_type(lines.flat_map_values(lambda value: value.split()), ps.KStream[str, str])
assert_type(lines.map(lambda key, value: (len(key), value.encode())), ps.KStream[int, bytes])
assert_type(lines.flat_map(lambda key, value: [(len(key), value)]), ps.KStream[int, str])
assert_type(lines.select_key(lambda key, value: len(value)), ps.KStream[int, str])

counts = lines.group_by(lambda key, value: value).count(ps.Materialized.as_("counts"))
assert_type(counts, ps.KTable[str, int])
assert_type(counts.to_stream(), ps.KStream[str, int])
assert_type(counts.to_stream(lambda key, value: value), ps.KStream[int, int])
assert_type(counts.map_values(lambda value: str(value)), ps.KTable[str, str])
assert_type(counts.filter(lambda key, value: value > 1), ps.KTable[str, int])
assert_type(lines.group_by_key().reduce(lambda aggregate, value: aggregate + value), ps.KTable[str, str])
assert_type(
    lines.group_by_key().aggregate(lambda: 0.5, lambda key, value, aggregate: aggregate + len(value)),
    ps.KTable[str, float],
)
assert_type(lines.to_table(), ps.KTable[str, str])

assert_type(lines.join(users, lambda line, user: line * user), ps.KStream[str, str])
assert_type(lines.join(users, lambda key, line, user: user / 2), ps.KStream[str, float])
assert_type(lines.left_join(users, lambda line, user: user if user is None else user + 1), ps.KStream[str, int | None])

branches = lines.split().branch(lambda key, value: value == key, ps.Branched.as_("same")).default_branch()
assert_type(branches, dict[str, ps.KStream[str, str]])


class Lengths(ps.Processor[str, str, str, int]):
    """Forwards the length of each value."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Keep the context."""
        self._context = context

    def process(self, record: ps.Record[str, str]) -> None:
        """Forward."""
        self._context.forward(record.with_value(len(record.value)))


assert_type(lines.process(Lengths), ps.KStream[str, int])
lines.to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string()))

lines.map_values(lambda value: value.no_such_method())  # type: ignore[attr-defined]  # inferred: a str
lines.to("out", ps.Produced.with_(ps.Serdes.long(), ps.Serdes.string()))  # type: ignore[arg-type]  # keys are str
