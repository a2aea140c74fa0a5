"""Steps of random cases that join two streams."""

from __future__ import annotations

from typing import Any

from tests.parity.fuzz.program import STREAM, Program

_REACH_MS = (0, 0, 1, 5, 20)
_MOST = 3
"""Limit of joins, each of which may square the number of records."""
_GRACE_MS = (0, 0, 5, 10, 50)


def stream_join(program: Program) -> bool:
    """A join of two streams, now and then of one with itself."""
    source = program.any_of(STREAM)
    other = source and program.other(source, STREAM, source.key)
    joins = sum(step["op"] == "stream_stream" for step in program.steps)
    if source is None or other is None or joins == _MOST:
        return False
    rng = program.rng
    fields: dict[str, Any] = {
        "with": other.id,
        "kind": rng.choice(("inner", "left", "outer")),
        "before_ms": rng.choice(_REACH_MS),
        "after_ms": rng.choice(_REACH_MS),
        "grace_ms": rng.choice(_GRACE_MS),
    }
    if program.chance(0.15):
        fields["name"] = f"join{program.number()}"
    if program.chance(0.15):
        fields["store"] = f"kept{program.number()}"
    if program.chance(0.1):
        fields["logging"] = False
    program.add("stream_stream", STREAM, source.key, "string", source, **fields)
    return True
