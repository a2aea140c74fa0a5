"""Tables whose updates are held back, for random cases."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz.program import TABLE, WINDOWED, Made, Program
from tests.parity.fuzz.versioned import history_of

_WAIT_MS = (0, 1, 5, 10, 30, 100, 10**9)
_MAX_RECORDS = (0, 1, 2, 5, 20)
_MAX_BYTES = (0, 50, 100, 200, 500)


def suppress(program: Program) -> bool:
    """A step ``suppress``: until a time limit, now and then with limits of size, or until windows close."""
    table = program.any_of(WINDOWED) if program.chance(0.6) else None
    table = table or program.any_of(TABLE)
    if table is None or history_of(program.steps, table.id) is not None:
        return False  # versioned tables cannot be held back
    if not _has_serde(program, table):
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


def _has_serde(program: Program, table: Made) -> bool:
    """Returns True if the default serde, that of strings, or a better one is known for the values: Kafka Streams does
    not know the serde of mapped values."""
    if table.value == "string":
        return True
    before: str | None = table.id
    for step in reversed(program.steps):
        if before is not None and step.get("id") == before:
            if step["op"] in ("map_values", "transform_values"):
                return "store" in step
            if step["op"] not in ("filter", "filter_not") or "store" in step:
                return True
            before = step.get("in")
    return True
