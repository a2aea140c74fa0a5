"""The raylet that started a stream actor's process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psutil

_PID = "RAY_RAYLET_PID"
"""Ray sets this variable in the environment of each worker."""
_LOOK_EVERY_S = 0.05


class Raylet:
    """The raylet that started this process. When a raylet is killed, its workers survive.

    ``parents`` return the pids of the parents of this process, and of each process between it and the raylet: with a
    runtime environment of ``uv run`` the raylet starts uv, and uv starts the worker.
    """

    def __init__(self, parents: Sequence[Callable[[], int]], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._look_at_s = clock_s()
        self._has_ended = False
        self._parents = parents
        self._first = [parent() for parent in parents]

    @classmethod
    def above_this_process(cls) -> Raylet:
        """Returns the raylet that Ray names in the environment, or else the parent of this process."""
        return cls([os.getppid, *_between(os.environ.get(_PID, ""))])

    def has_ended(self) -> bool:
        """Returns True if one of the processes has another parent now. Checks at most every 50 ms, since it takes some
        100 µs, and the loop asks in each step."""
        now_s = self._clock_s()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_EVERY_S
            self._has_ended = any(parent() != first for parent, first in zip(self._parents, self._first, strict=True))
        return self._has_ended


def _between(raylet_pid: str) -> list[Callable[[], int]]:
    """Returns the parents of the processes between this one and the raylet; none if the raylet is not above it, as in a
    container."""
    between: list[Callable[[], int]] = []
    with suppress(psutil.Error):  # the system may hide the processes of other users, above the raylet as well
        process = psutil.Process().parent()
        while process is not None:
            if str(process.pid) == raylet_pid:
                return between
            between.append(partial(_parent_of, process, process.ppid()))
            process = process.parent()
    return []


def _parent_of(process: psutil.Process, first: int) -> int:
    """Returns the pid of the parent, or ``first`` if the system hides it; 0 if the process has ended."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return 0
    except psutil.Error:
        return first
