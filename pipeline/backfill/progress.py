"""The progress of a backfill: of each step in tasks of Spark, of a stage in records as soon as its tasks take some."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.common.errors import ObjectStoreError
from penstock.pipeline.spark.spark_progress import SparkProgress

TASKS, RECORDS = "tasks of Spark", "records"


@dataclass(frozen=True)
class StepProgress:
    """The progress of a step: ``done`` of ``total`` units; 0 while the total is not known. ``per_second`` and
    ``left_s`` (seconds) are estimates for records, None for tasks of Spark."""

    step: str
    done: int = 0
    total: int = 0
    unit: str = TASKS
    per_second: float | None = None
    left_s: float | None = None


Progress = Callable[[StepProgress], None]


class TakesRows(Protocol):
    """The work of a stage."""

    def taken(self) -> int:
        """Returns the number of rows that tasks have taken since the stage began."""


class Meter:
    """Measures the steps of a backfill.

    ``tasks``: returns the number of Spark's tasks that are done, and of all of them. ``clock``: seconds.
    """

    def __init__(
        self, tasks: Callable[[], tuple[int, int]], progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks = tasks
        self._progress = progress
        self._clock = clock
        self._work: TakesRows | None = None
        self._total = 0
        self._first: tuple[float, int] | None = None
        self._now: tuple[float, int] | None = None
        self.watch = SparkProgress(self._measure, self._report)

    def begin(self, step: str, work: TakesRows | None = None, total: int = 0) -> None:
        """Begin a step. A stage has ``work``, and takes at most ``total`` rows."""
        self._work, self._total = work, total
        self._first = self._now = None
        self.watch.begin(step)

    def _measure(self) -> tuple[int, int]:
        work, total = self._work, self._total
        if work is not None:
            try:
                taken = work.taken()
            except ObjectStoreError:  # asked again in a second
                taken = 0
            if taken and work is self._work:
                self._now = self._clock(), taken
                self._first = self._first or self._now
                return min(taken, total), total
        return self._tasks()

    def _report(self, step: str, done: int, total: int) -> None:
        if self._now is None or self._first is None or not total:
            self._progress(StepProgress(step, done, total))
            return
        seconds, taken = self._now[0] - self._first[0], self._now[1] - self._first[1]
        rate = taken / seconds if seconds > 0 and taken > 0 else None
        left = None if rate is None else (total - done) / rate
        self._progress(StepProgress(step, done, total, RECORDS, rate, left))
