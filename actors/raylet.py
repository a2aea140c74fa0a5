"""The raylet that started a stream actor's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import psutil

_PID = "RAY_RAYLET_PID"
"""Ray sets this variable in the environment of each worker."""


class Raylet:
    """The raylet above this process. It does not take its workers with it when it is killed.

    ``parents`` return the pid of the parent of this process, and of each process between it and the raylet: with a
    runtime environment of ``uv run`` the raylet starts uv, and uv starts the worker.
    """

    def __init__(self, parents: Sequence[Callable[[], int]]) -> None:
        self._parents = parents
        self._first = [parent() for parent in parents]

    @classmethod
    def above_this_process(cls) -> Raylet:
        """Returns the raylet that Ray names in the environment, or else the parent of this process."""
        return cls([os.getppid, *_between(os.environ.get(_PID, ""))])

    def has_ended(self) -> bool:
        """True if the system has given one of the processes to another parent."""
        return any(parent() != first for parent, first in zip(self._parents, self._first, strict=True))


def _between(raylet_pid: str) -> list[Callable[[], int]]:
    """Returns the parents of the processes between this one and the raylet; none if the raylet is not above it, as in a
    container."""
    between: list[Callable[[], int]] = []
    for process in psutil.Process().parents():
        if str(process.pid) == raylet_pid:
            return between
        between.append(partial(_parent_of, process))
    return []


def _parent_of(process: psutil.Process) -> int:
    """Returns the pid of its parent; 0 if the process has ended."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0
