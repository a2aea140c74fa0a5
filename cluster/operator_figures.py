"""Defines the figures of an operator (processor node), of all tasks together, from those that tasks report."""

from __future__ import annotations

from collections.abc import Mapping


def entered(figures: Mapping[str, list[float]]) -> float | None:
    """Returns the records per second that enter an operator. ``figures``: those of its tasks, by name. None: not
    known."""
    rates = figures.get("records-rate") or figures.get("process-rate")  # sources have the second one
    return sum(rates) if rates else None


def busiest(figures: Mapping[str, list[float]]) -> float | None:
    """Returns the share that an operator takes of the time of the actor where it takes most; None: not known. The
    figures have one share for each actor."""
    return max(figures.get("busy-ratio", ()), default=None)
