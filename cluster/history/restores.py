"""Makes events of the history out of the restores that the statuses of actors report."""

from __future__ import annotations

from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster.application_history import EventKind
from penstock.cluster.history.machine_events import AddEvent, named
from penstock.common.ids import TaskId
from penstock.common.shown import counted, seconds_text


class Restores:
    """The restores under way. One that begins and ends between two statuses is no event."""

    def __init__(self, add: AddEvent) -> None:
        self._add = add
        self._under_way: dict[str, dict[TaskId, int | None]] = {}  # since when, in ms
        self._found: set[str] = set()  # with restores that may have begun before the history

    def found(self, actor: str) -> None:
        """Take an actor that a restarted coordinator has found: its restores under way began at an unknown time."""
        self._found.add(actor)

    def reported(self, status: ActorStatus, at_ms: int) -> None:
        """Take the status of an actor."""
        name = status.actor_id
        before = self._under_way.get(name, {})
        restoring = [task.task_id for task in status.tasks if task.state is TaskState.RESTORING]
        begins = None if name in self._found else at_ms
        self._found.discard(name)
        if not before and not restoring:
            return
        now = {task: before.get(task, begins) for task in restoring}
        self._under_way[name] = now
        if begun := sorted(now.keys() - before.keys()):
            only = begun[0] if len(begun) == 1 else None
            verb = "restores its stores" if only else "restore their stores"
            self._add(EventKind.RESTORE, f"{named(begun)} {verb} on {name}", actor=name, task=only)
        running = {task.task_id: task for task in status.tasks if task.state is TaskState.RUNNING}
        if ended := sorted((before.keys() - now.keys()) & running.keys()):
            only = ended[0] if len(ended) == 1 else None
            records = sum(running[task].restore_total for task in ended)
            began_ms = [at for task in ended if (at := before[task]) is not None]
            lasted = f" in {seconds_text((at_ms - min(began_ms)) / 1000)}" if len(began_ms) == len(ended) else ""
            have = "has restored" if only else "have restored"
            restored = f"{have} {counted(records, 'record')}{lasted}"
            self._add(EventKind.RESTORE, f"{named(ended)} {restored} on {name}", actor=name, task=only)

    def forget_all_but(self, actors: frozenset[str]) -> None:
        """Forget the actors that are gone."""
        self._found &= actors
        self._under_way = {name: tasks for name, tasks in self._under_way.items() if name in actors and tasks}
