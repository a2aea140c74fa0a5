"""The wanted number of stream actors and the effect of other numbers, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ActorCount:
    """The effect of a number of stream actors: ``tasks_each`` is the most that one hosts, ``busiest`` the share of its
    time that the busiest needs to keep up and to catch up soon enough (above 1 it cannot). It has no lag any more after
    ``catch_up_s``; None: never."""

    actors: int
    tasks_each: int
    busiest: float
    catch_up_s: float | None


@dataclass(frozen=True)
class ScalingStatus:
    """The number of stream actors that there should be (``wanted``), within ``minimum`` and ``maximum``, and the
    ``advised`` number with its reason. ``automatic``: the advice is followed. ``counts``: their expected effects."""

    wanted: int
    advised: int
    reason: str
    automatic: bool
    minimum: int
    maximum: int
    counts: tuple[ActorCount, ...] = ()
