"""The orders that a stream actor receives. A new one needs a class here, a case of ``StreamLoop.take``, and code that
gives it: between them orders travel as they are."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.ids import Sources


@dataclass(frozen=True)
class Assign:
    """These, and no others, are the tasks and the standbys, and what each reads as planned: one that read something
    else is closed and opened again. Done once all other tasks are committed and closed."""

    epoch: int
    sources: Sources
    standbys: Sources


@dataclass(frozen=True)
class Suspend:
    """Process nothing until an assignment above ``epoch`` comes. Done when all is committed."""

    epoch: int


@dataclass(frozen=True)
class Pause:
    """Let no task process records or punctuate, or let them continue. Done when it is so."""

    paused: bool


@dataclass(frozen=True)
class Stop:
    """Commit what is processed, close the tasks, end the loop."""


Order = Assign | Suspend | Pause | Stop
