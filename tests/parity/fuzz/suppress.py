"""Tables whose updates are held back, for random cases."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz.program import TABLE, WINDOWED, Program

_WAIT_MS = (0, 1, 5, 10, 30, 100, 10**9)
_MAX_RECORDS = (0, 1, 2, 5, 20)
_MAX_BYTES = (0, 50, 100, 200, 500)


def suppress(program: Program) -> bool:
    """Until a time limit, with limits now and then, or until windows close."""
    table = program.any_of(WINDOWED) if program.chance(0.6) else None
    table = table or program.any_of(TABLE)
    if table is None:
        return False
    fields: dict[str, Any] = {}
    if table.kind == TABLE or program.chance(0.3):
        fields["wait_ms"] = program.rng.choice(_WAIT_MS)
        if program.chance(0.2):
            fields["max_records"] = program.rng.choice(_MAX_RECORDS)
        if program.chance(0.2):
            fields["max_bytes"] = program.rng.choice(_MAX_BYTES)
    if program.chance(0.03):
        fields |= {"max_records": program.rng.choice((2, 20, 100)), "stops_when_full": True}
    if program.chance(0.08):
        fields["logging"] = False
    program.add("suppress", table.kind, table.key, table.value, table, **fields)
    return True
