"""The orders that a stream actor receives. A new one needs a class here, a case of ``StreamLoop.take``, and code that
gives it. In between, orders are passed on unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.ids import Sources


@dataclass(frozen=True)
class Assign:
    """Host exactly these tasks and standbys; each reads the given partitions. A task that reads others is closed and
    opened again. Done when all other tasks are committed and closed."""

    epoch: int
    sources: Sources
    standbys: Sources


@dataclass(frozen=True)
class Suspend:
    """Process nothing until an assignment above ``epoch`` arrives. Done when all is committed."""

    epoch: int


@dataclass(frozen=True)
class Pause:
    """Let no task process records or punctuate, or let them continue. Done when this is in effect."""

    paused: bool


@dataclass(frozen=True)
class Stop:
    """Commit all processed records, close the tasks, end the loop."""


Order = Assign | Suspend | Pause | Stop
