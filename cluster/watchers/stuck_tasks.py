"""Finds tasks that make no progress although they have records to read. No clock here: the caller gives the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.status import StuckTask
from penstock.common.ids import TaskId, TopicPartition


@dataclass(frozen=True)
class _Progress:
    """The progress of a task, by its own report, and the time since when it has made none."""

    actor_id: str
    processed: int
    positions: tuple[tuple[TopicPartition, int], ...]
    since_s: float

    def is_unchanged(self, actor: ActorStatus, task: TaskStatus) -> bool:
        there = (actor.actor_id, task.records_processed, _places(task))
        return (self.actor_id, self.processed, self.positions) == there


class StuckTasks:
    """Remembers the progress of each task. A task that runs, lags, and has made no progress for ``patience_s`` is
    stuck: it has processed no record and skipped none.

    A task that restores, or waits for its stores, is not stuck however long that takes. Nor is any task while none may
    work, because the application has no session in the group, is not running, or is paused.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._progress: dict[TaskId, _Progress] = {}

    def look(self, now_s: float, actors: Iterable[ActorStatus], may_work: bool) -> tuple[StuckTask, ...]:
        """Returns the tasks that are stuck, by the last reports of the actors. To be called every few seconds."""
        before, self._progress = self._progress, {}
        stuck: list[StuckTask] = []
        for actor in actors if may_work else ():
            for task in actor.tasks:
                if task.state is not TaskState.RUNNING or task.lag == 0:
                    continue
                known = before.get(task.task_id)
                if known is None or not known.is_unchanged(actor, task):
                    known = _Progress(actor.actor_id, task.records_processed, _places(task), now_s)
                self._progress[task.task_id] = known
                if now_s - known.since_s >= self._patience_s:
                    stuck.append(_stuck_task(actor, task, now_s - known.since_s))
        return tuple(sorted(stuck, key=lambda it: it.task_id))


def _places(task: TaskStatus) -> tuple[tuple[TopicPartition, int], ...]:
    return tuple(sorted(task.positions.items()))


def _stuck_task(actor: ActorStatus, task: TaskStatus, for_s: float) -> StuckTask:
    # The partition that has most to read: of several inputs the task may wait for the others.
    at = max(sorted(task.lags), key=lambda partition: task.lags[partition])
    offset = task.positions.get(at, task.committed.get(at))
    return StuckTask(task.task_id, actor.actor_id, at.topic, at.partition, offset, task.lags[at], for_s)
