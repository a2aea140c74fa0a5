"""The progress of a backfill: of each step in tasks of Spark, of a stage in records as soon as its tasks take some."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from penstock.common.beside import beside
from penstock.common.errors import ObjectStoreError
from penstock.common.step_progress import RECORDS, Progress, StepProgress

_LOOK_EACH_S = 1.0


class TakesRows(Protocol):
    """The work of a stage."""

    def taken(self) -> int:
        """Returns the number of rows that tasks have taken since the stage began."""


@dataclass
class _Step:
    """The step that is measured. ``first``: the time (s) of the first rows, and their number."""

    shown: StepProgress
    work: TakesRows | None = None
    total: int = 0
    first: tuple[float, int] | None = None


class Meter:
    """Measures the steps of a backfill, and reports each at its beginning and when it has come further.

    ``tasks``: returns the number of Spark's tasks that are done, and of all of them. ``clock``: seconds.
    """

    def __init__(
        self, tasks: Callable[[], tuple[int, int]], progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks = tasks
        self._progress = progress
        self._clock = clock
        self._lock = threading.Lock()
        self._step: _Step | None = None

    def begin(self, step: str, work: TakesRows | None = None, total: int = 0) -> None:
        """Begin a step. A stage has ``work``, and takes at most ``total`` rows."""
        with self._lock:
            self._step = _Step(StepProgress(step), work, total)
            self._progress(self._step.shown)

    def look(self) -> None:
        """Measure the step, and report it if it has come further."""
        step = self._step
        if step is None:
            return
        now = self._measured(step)
        with self._lock:
            before = step.shown
            if step is self._step and now.total and (now.done, now.total) != (before.done, before.total):
                step.shown = now
                self._progress(now)

    def watching(self) -> AbstractContextManager[None]:
        """Returns a ``with`` block in which a thread of its own looks each second."""
        return beside(self._watch, "spark-progress")

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_EACH_S):
            try:
                self.look()
            except Exception:
                return  # the JVM has ended: the backfill itself finds out at its next call

    def _measured(self, step: _Step) -> StepProgress:
        name = step.shown.step
        try:
            taken = 0 if step.work is None else step.work.taken()
        except ObjectStoreError:  # asked again in a second
            if step.first is not None:
                return step.shown
            taken = 0
        if not taken:
            return StepProgress(name, *self._tasks())
        now = self._clock()
        step.first = step.first or (now, taken)
        seconds, more = now - step.first[0], taken - step.first[1]
        done = min(taken, step.total)
        rate = more / seconds if seconds > 0 and more > 0 else None
        left = None if rate is None else (step.total - done) / rate
        return StepProgress(name, done, step.total, RECORDS, rate, left)
