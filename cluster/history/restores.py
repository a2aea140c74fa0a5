"""Makes events of the history out of the restores that the statuses of actors report."""

from __future__ import annotations

from typing import NamedTuple

from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster.application_history import EventKind
from penstock.cluster.history.machine_events import AddEvent, named
from penstock.common.ids import TaskId
from penstock.common.shown import counted, seconds_text


class _Restore(NamedTuple):
    began_ms: int
    records: int


class Restores:
    """The restores under way. One that begins and ends between two statuses is no event."""

    def __init__(self, add: AddEvent) -> None:
        self._add = add
        self._under_way: dict[str, dict[TaskId, _Restore]] = {}

    def reported(self, status: ActorStatus, at_ms: int) -> None:
        """Take the status of an actor."""
        name = status.actor_id
        before = self._under_way.get(name, {})
        restoring = {task.task_id: task for task in status.tasks if task.state is TaskState.RESTORING}
        if not before and not restoring:
            return
        now = {
            task_id: _Restore(before[task_id].began_ms if task_id in before else at_ms, task.restore_total)
            for task_id, task in restoring.items()
        }
        self._under_way[name] = now
        if begun := sorted(now.keys() - before.keys()):
            only = begun[0] if len(begun) == 1 else None
            verb = "restores its stores" if only else "restore their stores"
            self._add(EventKind.RESTORE, f"{named(begun)} {verb} on {name}", actor=name, task=only)
        running = {task.task_id: task for task in status.tasks if task.state is TaskState.RUNNING}
        if ended := sorted((before.keys() - now.keys()) & running.keys()):
            only = ended[0] if len(ended) == 1 else None
            records = sum(running[task].restore_total for task in ended)
            lasted_s = max(at_ms - before[task].began_ms for task in ended) / 1000
            have = "has restored" if only else "have restored"
            took = f"{counted(records, 'record')} in {seconds_text(lasted_s)}"
            self._add(EventKind.RESTORE, f"{named(ended)} {have} {took} on {name}", actor=name, task=only)

    def forget_all_but(self, actors: frozenset[str]) -> None:
        """Forget the actors that are gone."""
        self._under_way = {name: tasks for name, tasks in self._under_way.items() if name in actors and tasks}
