"""Reports the progress of Spark in each step of a backfill."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pyspark import SparkContext

Progress = Callable[[str, int, int], None]
"""Called with a step, the number of Spark's tasks that are done in it, and their total: 0 while that is not known."""
_LOOK_EACH_S = 1.0


def tasks_of(context: SparkContext) -> tuple[int, int]:
    """Returns the number of tasks that are done in the stages that Spark works on, and the number of all of them."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [info for info in infos if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)


class SparkProgress:
    """Asks Spark for its progress each second, in a thread of its own, while its ``with`` block runs."""

    def __init__(self, tasks: Callable[[], tuple[int, int]], progress: Progress) -> None:
        """``tasks``: see :func:`tasks_of`."""
        self._tasks = tasks
        self._progress = progress
        self._step = ""
        self._last_shown = (0, 0)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spark-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, step: str) -> None:
        """Report the beginning of ``step``."""
        with self._lock:
            self._step, self._last_shown = step, (0, 0)
            self._progress(step, 0, 0)

    def look(self) -> None:
        """Ask Spark for its progress, and report it if it has changed."""
        now = self._tasks()
        with self._lock:
            if self._step and now[1] and now != self._last_shown:
                self._last_shown = now
                self._progress(self._step, *now)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_EACH_S):
            try:
                self.look()
            except Exception:
                return  # the JVM has ended: the backfill itself finds out at its next call
