"""The wanted number of stream actors and the effect of other numbers, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ActorCount:
    """The effect of a number of stream actors. ``tasks_each``: the most tasks that one actor hosts. ``busiest``: the
    share of its time that the busiest actor needs to keep up and to catch up soon enough (above 1 it cannot).
    ``catch_up_s``: seconds until it has no lag; None if it never will."""

    actors: int
    tasks_each: int
    busiest: float
    catch_up_s: float | None


@dataclass(frozen=True)
class ScalingStatus:
    """The number of stream actors that is ``wanted``, within ``minimum`` and ``maximum``, and the number that is
    ``advised``, with its reason. ``automatic``: True if the advice is followed. ``counts``: the expected effects of
    possible numbers."""

    wanted: int
    advised: int
    reason: str
    automatic: bool
    minimum: int
    maximum: int
    counts: tuple[ActorCount, ...] = ()
