"""Aggregates in windows of time, for random cases."""

from __future__ import annotations

from typing import Any, Protocol

from tests.parity.fuzz import words

UNNAMED = ("time_window", "sliding_window", "windowed_to_stream")
"""Steps that have no name."""


class Program(Protocol):
    """The case that is being made."""

    rng: Any
    made: Any

    def chance(self, probability: float) -> bool: ...

    def number(self) -> int: ...

    def add(self, op: str, kind: str, key: str, value: str, /, on: Any = None, **fields: Any) -> None: ...

    def any_of(self, kind: str, key: str | None = None, value: str | None = None) -> Any: ...


def in_windows(program: Program) -> bool:
    """A stream grouped, cut into windows and aggregated in them: a table of windowed keys."""
    source = program.any_of("stream")
    if source is None:
        return False
    if program.chance(0.6):
        program.add("group_by_key", "grouped", source.key, source.value, source)
    else:
        fn = words.selector(program.rng, source.key)
        program.add("group_by", "grouped", "string", source.value, source, fn=fn)
    grouped = program.made[-1]
    op, fields = _windows(program)
    program.add(op, "cut", grouped.key, grouped.value, grouped, **fields)
    cut, kept = program.made[-1], _kept(program)
    match program.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            program.add("count", "windowed", cut.key, "long", cut, **kept)
        case "reduce":
            fn = words.reducer(program.rng, cut.value)
            program.add("reduce", "windowed", cut.key, cut.value, cut, fn=fn, **kept)
        case _:
            init, fn = words.aggregator(program.rng, cut.value)
            value = "long" if init == "zero" else "string"
            program.add("aggregate", "windowed", cut.key, value, cut, init=init, fn=fn, **kept)
    return True


def on_windowed(program: Program) -> bool:
    """A step on a table of windowed keys, which keeps none of it."""
    table = program.any_of("windowed")
    if table is None:
        return False
    match program.rng.choice(("filter", "map_values", "stream", "stream")):
        case "filter":
            fn = words.predicate(program.rng, table.value)
            program.add("filter", "windowed", table.key, table.value, table, fn=fn)
        case "map_values":
            fn, value = words.mapper(program.rng, table.value)
            program.add("map_values", "windowed", table.key, value, table, fn=fn, value=value)
        case _:
            to_stream(program, table)
    return True


def to_stream(program: Program, table: Any) -> None:
    """The updates of a table of windowed keys as records."""
    program.add("windowed_to_stream", "stream", "string", table.value, table)


def _windows(program: Program) -> tuple[str, dict[str, Any]]:
    rng = program.rng
    size = rng.choice((1, 3, 10, 10, 25, 60, 1000))
    fields: dict[str, Any] = {"size_ms": size, "grace_ms": rng.choice((0, 0, 5, 20, 100))}
    if program.chance(0.35):
        fields["emit_final"] = True
    if program.chance(0.35):
        return "sliding_window", fields
    if size > 1 and program.chance(0.5):
        fields["advance_ms"] = rng.choice((max(1, size // 5), max(1, size // 2), size - 1, size))
    return "time_window", fields


def _kept(program: Program) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if program.chance(0.5):
        fields["store"] = f"store{program.number()}"
    if program.chance(0.4):
        fields["caching"] = False
    if program.chance(0.1):
        fields["logging"] = False
    if program.chance(0.15):
        fields["in_memory"] = True
    return fields
