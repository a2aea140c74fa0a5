"""Versioned tables in random cases: the lengths of their history, and the tables that have one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

HISTORIES_MS = (0, 5, 20, 100, 1000, 60_000)


def history_of(steps: Sequence[dict[str, Any]], id: str) -> int | None:
    """Returns the ms of history that the table ``id`` keeps; None if it is not versioned. A filter or mapper that is
    not kept in a store passes its input's history on."""
    step = next((each for each in steps if each.get("id") == id), {"op": "branch"})
    if "history_ms" in step:
        return int(step["history_ms"])
    if step["op"] in ("filter", "filter_not", "map_values", "transform_values") and "store" not in step:
        return history_of(steps, step["in"])
    return None


def grace(rng: Random, history_ms: int | None) -> dict[str, Any]:
    """Returns a grace period, or none, for a join with a table of that history."""
    if history_ms is None or rng.random() < 0.4:
        return {}
    return {"grace_ms": rng.choice([each for each in (0, 1, 7, 30, 500) if each <= history_ms])}
