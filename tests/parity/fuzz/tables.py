"""Random steps on tables: changes of values, joins by primary key, aggregates of grouped tables, streams of updates."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz import words
from tests.parity.fuzz.program import GROUPED_TABLE, STREAM, TABLE, WINDOWED, Made, Program
from tests.parity.fuzz.stores import kept

_OF_VALUES = ("first_char", "value", "const:c")
"""Selectors that ignore the key: the text of a windowed key is not the same in Python and Java."""


def filter_table(program: Program) -> bool:
    """A step ``filter`` or ``filter_not`` on a table."""
    source = program.one_of(TABLE, TABLE, WINDOWED)
    if source is None:
        return False
    op = program.rng.choice(("filter", "filter_not"))
    fn = words.predicate(program.rng, source.value)
    program.add(op, source.kind, source.key, source.value, source, fn=fn, **_maybe_kept(program, source))
    return True


def map_table_values(program: Program) -> bool:
    """A mapper, or a transformer, of values."""
    source = program.one_of(TABLE, TABLE, WINDOWED)
    if source is None:
        return False
    op = program.rng.choice(("map_values", "map_values", "transform_values"))
    fn, value = words.mapper(program.rng, source.value)
    if op == "transform_values" and source.kind == TABLE and program.chance(0.3):
        fn, value = "with_key", "string"
    how = _maybe_kept(program, source)
    program.add(op, source.kind, source.key, value, source, fn=fn, value=value, **how)
    return True


def _maybe_kept(program: Program, source: Made) -> dict[str, Any]:
    return kept(program) if source.kind == TABLE and program.chance(0.4) else {}


def to_stream(program: Program) -> bool:
    """The updates of a table as records, maybe with other keys."""
    source = program.one_of(TABLE, WINDOWED)
    if source is None:
        return False
    if source.kind == WINDOWED:
        if program.chance(0.2):
            selector = program.rng.choice(_OF_VALUES)
            program.add("to_stream", STREAM, "string", source.value, source, key_fn=selector)
        else:
            windowed_to_stream(program, source)
    elif program.chance(0.2):
        selector = words.selector(program.rng, source.key)
        program.add("to_stream", STREAM, "string", source.value, source, key_fn=selector)
    else:
        program.add("to_stream", STREAM, source.key, source.value, source)
    return True


def windowed_to_stream(program: Program, table: Made) -> Made:
    """The updates of a table whose keys have windows, with the windows in the text of the keys."""
    return program.add("windowed_to_stream", STREAM, "string", table.value, table)


def to_table(program: Program) -> bool:
    """A stream as a table."""
    source = program.any_of(STREAM)
    if source is None:
        return False
    program.add("to_table", TABLE, source.key, source.value, source, **kept(program, named=0.5))
    return True


def table_table(program: Program) -> bool:
    """A join of two tables, which may be one and the same."""
    source = program.any_of(TABLE)
    other = source and program.other(source, TABLE, source.key)
    if source is None or other is None:
        return False
    fields = {"with": other.id, "kind": program.rng.choice(("inner", "left", "outer")), **kept(program, named=0.4)}
    program.add("table_table", TABLE, source.key, "string", source, **fields)
    return True


def table_aggregate(program: Program) -> bool:
    """An aggregate, of a table grouped for it or of one that is grouped already."""
    grouped = program.any_of(GROUPED_TABLE) if program.chance(0.25) else None
    if grouped is None:
        source = program.one_of(TABLE, TABLE, WINDOWED)
        if source is None:
            return False
        named: dict[str, Any] = {"name": f"group{program.number()}"} if program.chance(0.2) else {}
        of_values = program.rng.choice(_OF_VALUES)
        fn = of_values if source.kind == WINDOWED else words.selector(program.rng, source.key)
        grouped = program.add("group_by", GROUPED_TABLE, "string", source.value, source, fn=fn, **named)
    how = kept(program, named=0.6)
    match program.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            program.add("count", TABLE, grouped.key, "long", grouped, **how)
        case "reduce":
            fn, sub = (words.reducer(program.rng, grouped.value) for _ in range(2))
            program.add("reduce", TABLE, grouped.key, grouped.value, grouped, fn=fn, sub=sub, **how)
        case _:
            init, fn = words.aggregator(program.rng, grouped.value)
            value = "long" if init == "zero" else "string"
            sub = program.rng.choice(("sub", "sum") if init == "zero" else ("minus", "concat", "drop_on:a"))
            program.add("aggregate", TABLE, grouped.key, value, grouped, init=init, fn=fn, sub=sub, **how)
    return True
