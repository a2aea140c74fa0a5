"""Counts of the records that an application has processed while a command watches it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.cluster.read_side import TaskStatus
from penstock.common.ids import TaskId


class Processed:
    """Counts that never decrease. A task starts again at zero when it moves or returns to its last commit; the counts
    before are added."""

    def __init__(self) -> None:
        self._before: dict[TaskId, int] = {}
        self._last: dict[TaskId, int] = {}

    def of(self, tasks: Iterable[TaskStatus]) -> Mapping[TaskId, int]:
        """The count of every task that was ever seen, with what ``tasks`` report now."""
        for task in tasks:
            last = self._last.get(task.task_id, 0)
            if task.records_processed < last:
                self._before[task.task_id] = self._before.get(task.task_id, 0) + last
            self._last[task.task_id] = task.records_processed
        return {task_id: self._before.get(task_id, 0) + last for task_id, last in self._last.items()}
