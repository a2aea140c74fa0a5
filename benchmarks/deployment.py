"""The application that is killed: two processes or more that keep the last value of each key, on either side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from benchmarks.measure import BenchmarkError

GUARANTEES = ("at_least_once", "exactly_once_v2")
PATIENCE_S = 600.0
CAUGHT_UP_LAG = 1000
COMMIT_INTERVAL_MS = 100


@dataclass(frozen=True)
class Setting:
    """The size of the application. ``nodes``: processes that host tasks, each for itself."""

    tasks: int
    nodes: int
    standbys: int
    guarantee: str

    def __post_init__(self) -> None:
        """Raise BenchmarkError for what would be found when topics are filled already."""
        if self.guarantee not in GUARANTEES:
            raise BenchmarkError(f"guarantee {self.guarantee!r} is none of {', '.join(GUARANTEES)}")
        if self.standbys >= self.nodes:
            raise BenchmarkError(f"{self.standbys} standbys want more than {self.nodes} nodes")


@dataclass(frozen=True)
class Victim:
    """A process that hosts tasks, which read these partitions."""

    name: str
    pid: int
    partitions: tuple[int, ...]


class Deployment(Protocol):
    """An application that runs. ``output`` is its topic of results."""

    name: str
    output: str
    recovers_itself: bool
    """True if it replaces a process that is lost, without :meth:`recover`."""

    def until_at_rest(self, but: str = "") -> None:
        """Wait until all is processed, every standby has caught up, and the process ``but`` is replaced."""

    def busiest(self) -> Victim:
        """Returns the process with most tasks."""

    def kill(self, victim: Victim) -> None:
        """kill -9."""

    def recover(self) -> None:
        """Do what this side does not do by itself after a kill, so that results come again."""


def source_of(output: str) -> str:
    """Returns the topic that the application with this ``output`` reads."""
    return f"{output}-entries"
