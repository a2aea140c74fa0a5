"""Random joins of tables by foreign key."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz.program import TABLE, WINDOWED, Program
from tests.parity.fuzz.stores import kept


def foreign_key(program: Program) -> bool:
    """A join of two tables, which may be one and the same; foreign keys are text, so the other one's keys are."""
    source = program.one_of(TABLE, TABLE, TABLE, WINDOWED)
    other = source and program.other(source, TABLE, "string")
    if source is None or other is None or (source.kind == WINDOWED and program.comes_from(source, "cogroup")):
        return False  # Kafka Streams cannot look into a cogroup in windows: it does not start
    fields: dict[str, Any] = {"with": other.id, "kind": program.rng.choice(("inner", "left"))}
    fn = program.rng.choice(("value", "value", "first_char", "first_char", "const:a"))
    if source.kind == TABLE and program.chance(0.3):
        fields.update(kept(program, named=0.7))
    if program.chance(0.15):
        fields["name"] = f"fk{program.number()}"
    program.add("foreign_key", source.kind, source.key, "string", source, fn=fn, **fields)
    return True
