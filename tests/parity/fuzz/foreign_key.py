"""Random joins of tables by foreign key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.parity.fuzz.generate import _Program


def foreign_key(program: _Program) -> bool:
    """A join of two tables, which may be one and the same; foreign keys are text, so the other one's keys are."""
    source = program.any_of("table")
    other = source and program.any_of("table", "string")
    if source is None or other is None:
        return False
    fields = {"with": other.id, "kind": program.rng.choice(("inner", "left"))}
    fn = program.rng.choice(("value", "first_char", "const:a"))
    program.add("foreign_key", "table", source.key, "string", source, fn=fn, **fields)
    return True
