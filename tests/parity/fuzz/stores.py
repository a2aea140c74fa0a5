"""How random tables are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.parity.fuzz.generate import _Program


def kept(program: _Program, named: float = 1.0) -> dict[str, Any]:
    """How a table is kept: the fields of its store."""
    fields: dict[str, Any] = {}
    if program.chance(named):
        fields["store"] = f"store{program.number()}"
    if program.chance(0.3):
        fields["caching"] = False
    if program.chance(0.25):
        fields["in_memory"] = True
    if program.chance(0.1):
        fields["logging"] = False
    return fields
