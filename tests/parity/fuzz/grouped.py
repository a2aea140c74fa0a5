"""Random aggregates of grouped streams: without windows, in windows and sessions, of several streams together."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz import words
from tests.parity.fuzz.program import GROUPED, STREAM, TABLE, WINDOWED, Made, Program
from tests.parity.fuzz.stores import kept, kept_in_windows

_CUT = "cut"
"""A grouped stream that is cut into windows: only an aggregate continues from one."""


def aggregate(program: Program) -> bool:
    """An aggregate, of a stream grouped for it or of one that is grouped already."""
    grouped = _any_grouped(program)
    if grouped is None:
        return False
    _aggregate(program, grouped, TABLE, kept(program, named=0.6))
    return True


def in_windows(program: Program) -> bool:
    """An aggregate in windows of time: a table whose keys have windows."""
    grouped = _any_grouped(program)
    if grouped is None:
        return False
    op, fields = _windows(program)
    if program.chance(0.35) and op != "unlimited_window":
        fields["emit_final"] = True
    cut = program.add(op, _CUT, grouped.key, grouped.value, grouped, **fields)
    _aggregate(program, cut, WINDOWED, kept_in_windows(program))
    return True


def cogroup(program: Program) -> bool:
    """One aggregate of one to three grouped streams, maybe in windows."""
    first = _any_grouped(program)
    if first is None:
        return False
    grouped = [first]
    for _ in range(program.rng.choice((0, 1, 1, 2))):
        again = [each for each in program.made if each.kind == GROUPED and each.key == first.key and each != first]
        # Two that are repartitioned without a name would have the same topic.
        another = program.rng.choice(again) if again and program.chance(0.3) else _group(program, first.key, 0.95)
        if another is not None:
            grouped.append(another)
    init = program.rng.choice(("empty", "empty", "zero"))
    parts = [
        {"in": each.id, "fn": program.rng.choice(words.aggregators(each.value, init))}
        for each in dict.fromkeys(grouped)
    ]
    value = "long" if init == "zero" else "string"
    if program.chance(0.5):
        op, fields = _windows(program)
        window = {"window": {"op": op, **fields}, **kept_in_windows(program)}
        program.add("cogroup", WINDOWED, first.key, value, parts=parts, init=init, **window)
    else:
        program.add("cogroup", TABLE, first.key, value, parts=parts, init=init, **kept(program, named=0.6))
    return True


def _any_grouped(program: Program) -> Made | None:
    grouped = program.any_of(GROUPED) if program.chance(0.25) else None
    return grouped or _group(program)


def _group(program: Program, key: str | None = None, named: float = 0.2) -> Made | None:
    """A grouped stream, by keys of that type if one is given."""
    by_key = program.chance(0.5)
    source = program.any_of(STREAM, key) if by_key else program.any_of(STREAM)
    if source is None or (not by_key and key == "long"):
        return None
    name: dict[str, Any] = {"name": f"group{program.number()}"} if program.chance(named) else {}
    if by_key:
        return program.add("group_by_key", GROUPED, source.key, source.value, source, **name)
    fn = words.selector(program.rng, source.key)
    return program.add("group_by", GROUPED, "string", source.value, source, fn=fn, **name)


def _aggregate(program: Program, grouped: Made, kind: str, how: dict[str, Any]) -> None:
    match program.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            program.add("count", kind, grouped.key, "long", grouped, **how)
        case "reduce":
            fn = words.reducer(program.rng, grouped.value)
            program.add("reduce", kind, grouped.key, grouped.value, grouped, fn=fn, **how)
        case _:
            init, fn = words.aggregator(program.rng, grouped.value)
            value = "long" if init == "zero" else "string"
            program.add("aggregate", kind, grouped.key, value, grouped, init=init, fn=fn, **how)


def _windows(program: Program) -> tuple[str, dict[str, Any]]:
    """A step that cuts into windows, with its fields."""
    rng = program.rng
    grace = {"grace_ms": rng.choice((0, 0, 5, 20, 100))}
    size = rng.choice((1, 3, 10, 10, 25, 60, 1000))
    match rng.choice(("time", "time", "time", "sliding", "sliding", "session", "session", "session", "unlimited")):
        case "time":
            overlap = size > 1 and program.chance(0.5)
            advance = rng.choice((max(1, size // 5), max(1, size // 2), size - 1, size))
            return "time_window", {"size_ms": size, **grace, **({"advance_ms": advance} if overlap else {})}
        case "sliding":
            return "sliding_window", {"size_ms": size, **grace}
        case "session":
            return "session_window", {"gap_ms": rng.choice((1, 3, 5, 15, 100, 40_000)), **grace}
        case _:
            return "unlimited_window", {"start_ms": rng.choice((0, 0, 10, 100))}
