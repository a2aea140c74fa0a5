"""Random joins of tables by primary key, and random aggregates of grouped tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.parity.fuzz import words
from tests.parity.fuzz.stores import kept

if TYPE_CHECKING:
    from tests.parity.fuzz.generate import _Program


def table_table(program: _Program) -> bool:
    """A join of two tables, which may be one and the same."""
    source = program.any_of("table")
    other = source and program.any_of("table", source.key)
    if source is None or other is None:
        return False
    fields = {"with": other.id, "kind": program.rng.choice(("inner", "left", "outer")), **kept(program, named=0.4)}
    program.add("table_table", "table", source.key, "string", source, **fields)
    return True


def table_aggregate(program: _Program) -> bool:
    """An aggregate, of a table grouped for it or of one that is grouped already."""
    grouped = program.any_of("grouped_table") if program.chance(0.25) else None
    if grouped is None:
        source = program.any_of("table")
        if source is None:
            return False
        named: dict[str, Any] = {"name": f"group{program.number()}"} if program.chance(0.2) else {}
        fn = words.selector(program.rng, source.key)
        program.add("group_by", "grouped_table", "string", source.value, source, fn=fn, **named)
        grouped = program.made[-1]
    how = kept(program, named=0.6)
    match program.rng.choice(("count", "reduce", "aggregate")):
        case "count":
            program.add("count", "table", grouped.key, "long", grouped, **how)
        case "reduce":
            fn, sub = (words.reducer(program.rng, grouped.value) for _ in range(2))
            program.add("reduce", "table", grouped.key, grouped.value, grouped, fn=fn, sub=sub, **how)
        case _:
            init, fn = words.aggregator(program.rng, grouped.value)
            value = "long" if init == "zero" else "string"
            sub = program.rng.choice(("sub", "sum") if init == "zero" else ("minus", "concat", "drop_on:a"))
            program.add("aggregate", "table", grouped.key, value, grouped, init=init, fn=fn, sub=sub, **how)
    return True
