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
        """True if all stream actors are of one version, and none is on trial."""
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

    ``generation``: the one that stream actors are to run. ``proven``: the last one that has worked, which takes over
    again when a newer one fails. ``last``: the highest number given out. ``reason``: why a version was rolled back.
    ``watch_s``: how long a new version is watched when all tasks run it.
    """

    generation: int = 1
    proven: int = 1
    last: int = 1
    phase: RolloutPhase = RolloutPhase.DONE
    reason: str = ""
    watch_s: float = 60.0


NEVER = Rollout()
"""There was no roll-out."""


@dataclass(frozen=True)
class RunningProgram:
    """The version that an application runs: ``last`` is the highest number given out so far. The program is pickled
    with all of the user's code, so that it can be read where that code is not, or is another by now."""

    program: bytes
    last: int


@dataclass(frozen=True)
class Deployment:
    """Another version of the program, pickled in the same way. ``last``: the highest number given out when it was
    compared; ``version``: that of penstock where it was pickled; ``call``: the id of the call, which may come again."""

    program: bytes
    last: int
    version: str
    watch_s: float
    call: str
