"""How many stream actors there should be, and what other numbers would come to, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ActorCount:
    """What so many stream actors would come to: ``tasks_each`` is the most that one hosts, ``busiest`` the share of its
    time that the busiest needs to keep up and to catch up soon enough (above 1 it cannot). It has no lag any more after
    ``catch_up_s``; None: never."""

    actors: int
    tasks_each: int
    busiest: float
    catch_up_s: float | None


@dataclass(frozen=True)
class ScalingStatus:
    """How many stream actors there should be (``wanted``), within ``minimum`` and ``maximum``, how many are ``advised``
    and why; ``automatic``: the advice is followed. ``counts``: what was expected of which number."""

    wanted: int
    advised: int
    reason: str
    automatic: bool
    minimum: int
    maximum: int
    counts: tuple[ActorCount, ...] = ()
