"""What Kafka Streams cannot play by an error of its own: penstock plays it, and that is no difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Case = dict[str, Any]
Step = dict[str, Any]


def kafka_streams_own(case: Case, expected: Case, actual: Case) -> str | None:
    """By which error of its own Kafka Streams refuses ``case`` that penstock plays; None: by none that is known."""
    if "error" not in expected or "error" in actual:
        return None
    for why, (words, fits) in _KNOWN.items():
        if words in expected["error"] and fits(case["topology"]):
            return why
    return None


def _joins_what_a_punctuator_wrote(steps: Sequence[Step]) -> bool:
    ops = {step["op"] for step in steps}
    ticks = any(step["op"] == "process" and step["fn"].startswith("tick_") for step in steps)
    return ticks and "foreign_key" in ops


def _suppresses_a_cogroup_in_windows(steps: Sequence[Step]) -> bool:
    by_id = {step["id"]: step for step in steps if "id" in step}
    return any(step["op"] == "suppress" and _cogroup_in_windows(by_id, step["in"]) for step in steps)


def _cogroup_in_windows(by_id: dict[str, Step], id: str) -> bool:
    """Whether the table is one, or one behind steps that keep windows."""
    step = by_id.get(id)
    while step is not None and step["op"] in ("filter", "filter_not", "map_values", "transform_values", "suppress"):
        step = by_id.get(step["in"])
    return step is not None and step["op"] == "cogroup" and "window" in step


_KNOWN: dict[str, tuple[str, Callable[[Sequence[Step]], bool]]] = {
    "a foreign-key join of what a punctuator forwarded": ("Invalid partition: -1", _joins_what_a_punctuator_wrote),
    "suppress of a cogroup in windows whose streams come from versioned tables": (
        "suppress() is only supported for non-versioned KTables",
        _suppresses_a_cogroup_in_windows,
    ),
}
"""What Kafka Streams says, and what a case must have in it, lest other errors with the same words be overlooked."""
