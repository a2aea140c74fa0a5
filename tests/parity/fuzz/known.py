"""Cases that Kafka Streams cannot play because of its own errors: penstock plays them, and that is no difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Case = dict[str, Any]
Step = dict[str, Any]


def kafka_streams_own(case: Case, expected: Case, actual: Case) -> str | None:
    """Returns the known error by which Kafka Streams refuses a case that penstock plays; None if there is none."""
    if "error" not in expected or "error" in actual:
        return None
    for why, (words, fits) in _KNOWN.items():
        if words in expected["error"] and fits(case["topology"]):
            return why
    return None


def _punctuated_before(op: str) -> Callable[[Sequence[Step]], bool]:
    def fits(steps: Sequence[Step]) -> bool:
        ticks = any(step["op"] == "process" and step["fn"].startswith("tick_") for step in steps)
        return ticks and any(step["op"] == op for step in steps)

    return fits


def _aggregates_in_sliding_windows(steps: Sequence[Step]) -> bool:
    return any("sliding_window" in (step["op"], step.get("window", {}).get("op")) for step in steps)


_KNOWN: dict[str, tuple[str, Callable[[Sequence[Step]], bool]]] = {
    "a foreign-key join of what a punctuator forwarded": (
        "Invalid partition: -1",
        _punctuated_before("foreign_key"),
    ),
    "suppress of what a punctuator forwarded": (
        'Cannot invoke "String.getBytes(java.nio.charset.Charset)" because "this.topic" is null',
        _punctuated_before("suppress"),
    ),
    "a record in sliding windows after an aggregator's null, both before a commit": (
        'Cannot invoke "org.apache.kafka.streams.state.ValueAndTimestamp.value()" because "next.value" is null',
        _aggregates_in_sliding_windows,
    ),
}
"""For each error its words, and a test of the case, so that other errors with the same words are not overlooked."""
