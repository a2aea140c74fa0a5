"""The stores of random tables."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz import versioned
from tests.parity.fuzz.program import Program


def kept(program: Program, named: float = 1.0, may_be_versioned: bool = True) -> dict[str, Any]:
    """Returns the settings of a table's store, as fields of its step."""
    fields: dict[str, Any] = {}
    if program.chance(named):
        fields["store"] = f"store{program.number()}"
        if may_be_versioned and program.chance(0.08):
            return {**fields, "history_ms": program.rng.choice(versioned.HISTORIES_MS)}
    if program.chance(0.3):
        fields["caching"] = False
    if program.chance(0.6):  # takes Kafka Streams a third of the time
        fields["in_memory"] = True
    if program.chance(0.1):
        fields["logging"] = False
    return fields


def kept_in_windows(program: Program) -> dict[str, Any]:
    """Returns the settings of the store of windowed aggregates, as fields of its step."""
    fields = kept(program, named=0.5, may_be_versioned=False)
    fields.pop("in_memory", None)  # drops late values to the ms in Kafka Streams: see Stores.in_memory_window_store
    if program.chance(0.1):
        fields["retention_ms"] = 100_000
    return fields
