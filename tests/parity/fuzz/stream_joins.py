"""Steps of random cases that join two streams."""

from __future__ import annotations

from typing import Any

_REACH_MS = (0, 0, 1, 5, 20)
_GRACE_MS = (0, 0, 5, 10, 50)


def stream_join(program: Any) -> bool:
    """A join of two streams, now and then of one with itself."""
    source = program.any_of("stream")
    other = source and program.any_of("stream", source.key)
    if source is None or other is None:
        return False
    rng = program.rng
    fields = {
        "with": source.id if program.chance(0.1) else other.id,
        "kind": rng.choice(("inner", "left", "outer")),
        "before_ms": rng.choice(_REACH_MS),
        "after_ms": rng.choice(_REACH_MS),
        "grace_ms": rng.choice(_GRACE_MS),
    }
    program.add("stream_stream", "stream", source.key, "string", source, **fields)
    return True
