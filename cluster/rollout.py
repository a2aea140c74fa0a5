"""The progress of an application from one version of its program to the next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RolloutPhase(Enum):
    """The phases of a roll-out.

    ::

        STARTING ──> MOVING ──> WATCHING ──> DONE
            └───────────┴──────────┴──> ROLLING_BACK ──> ROLLED_BACK
    """

    STARTING = "starting"
    MOVING = "moving"
    WATCHING = "watching"
    DONE = "done"
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"

    @property
    def is_over(self) -> bool:
        """True if all stream actors are of one version, and no version is on trial."""
        return self in (RolloutPhase.DONE, RolloutPhase.ROLLED_BACK)


class Hold(Enum):
    """The reasons for which no task processes records, each with its meaning for a version that is on trial."""

    PAUSED = "paused: the new version is watched after a resume"
    NO_BROKER = "no broker answers: the watch of the new version begins again when one does"
    NO_TASKS = (
        "the group gives no task to this Ray cluster: the new version stays on trial, and is watched when a task comes"
    )


@dataclass(frozen=True)
class Rollout:
    """The last roll-out. A version of the program has a number, its *generation*; the application starts with 1.

    ``generation``: the version that stream actors must run. ``proven``: the last version that has worked, which
    replaces a newer one that fails. ``last``: the highest number so far. ``reason``: why a version was rolled back.
    ``watch_s``: seconds for which a new version is watched when all tasks run it.
    """

    generation: int = 1
    proven: int = 1
    last: int = 1
    phase: RolloutPhase = RolloutPhase.DONE
    reason: str = ""
    watch_s: float = 60.0


NEVER = Rollout()
"""The value before the first roll-out."""


@dataclass(frozen=True)
class RunningProgram:
    """The version that an application runs; ``last`` is the highest number so far. The program is pickled with all of
    the user's code, so that it can be read where that code is missing, or has changed."""

    program: bytes
    last: int


@dataclass(frozen=True)
class Deployment:
    """Another version of the program, pickled like :class:`RunningProgram`. ``last``: the highest number when it was
    compared. ``version``: the version of penstock that pickled it. ``call``: the id of the call, which may be
    repeated."""

    program: bytes
    last: int
    version: str
    watch_s: float
    call: str
