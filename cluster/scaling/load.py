"""Measures the capacity of stream actors and their input, by the difference between two reports of each actor."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.common.ids import TaskId

_Reported = Mapping[TaskId, tuple[ActorStatus, TaskStatus]]

_LARGEST_SHARE = 2.0
"""Largest busy time of an actor per second of its tasks' time. Its other work (fetch, send, commit) counts as theirs,
but only up to this: otherwise a few records would be no measure."""


@dataclass(frozen=True)
class TaskLoad:
    """The load of one task over a while: ``arrivals`` and ``processed`` are records per second, ``lag`` is in records,
    at its end. ``cost_s`` is the time of its actor that one record takes, in seconds."""

    actor: str
    arrivals: float
    processed: float
    lag: int
    cost_s: float

    def demand(self, catch_up_s: float) -> float:
        """Returns the share of an actor's time that it needs to keep up, and to work its lag off, in ``catch_up_s``."""
        return (self.arrivals + self.lag / catch_up_s) * self.cost_s


class LoadWindow:
    """The loads of the last ``window_s`` seconds. It begins again whenever a task moves or restores: earlier
    measurements do not apply then."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._looks: deque[tuple[float, _Reported]] = deque()

    def look(self, now_s: float, actors: Iterable[ActorStatus]) -> dict[TaskId, TaskLoad] | None:
        """Returns the load of each task; None until a whole window has passed in which all tasks ran where they are
        now, and at least one of them processed records, or none had any to read."""
        found = {task.task_id: (actor, task) for actor in actors for task in actor.tasks}
        if any(task.state is not TaskState.RUNNING for _, task in found.values()):
            self._looks.clear()
            return None
        if self._looks and not _same(self._looks[-1][1], found):
            self._looks.clear()
        self._looks.append((now_s, found))
        while len(self._looks) > 2 and now_s - self._looks[1][0] >= self._window_s:
            self._looks.popleft()
        then_s, before = self._looks[0]
        return _loads(before, found) if found and now_s - then_s >= self._window_s else None


def _same(before: _Reported, now: _Reported) -> bool:
    """Returns True if each task has continued where it was: another assignment may have opened it again."""
    return before.keys() == now.keys() and all(
        old[0].actor_id == new[0].actor_id
        and old[0].epoch == new[0].epoch
        and old[1].records_processed <= new[1].records_processed
        for old, new in ((before[task], now[task]) for task in now)
    )


def _loads(before: _Reported, now: _Reported) -> dict[TaskId, TaskLoad] | None:
    reported = {actor.actor_id: (before[task][0], actor) for task, (actor, _) in now.items()}
    share = {name: _share(then, actor, before, now) for name, (then, actor) in reported.items()}
    costs: dict[TaskId, float] = {}
    for task, (actor, status) in now.items():
        done = status.records_processed - before[task][1].records_processed
        if done:
            costs[task] = (status.busy_s - before[task][1].busy_s) * share[actor.actor_id] / done
    lagging = any(status.lag for _, status in now.values())
    if not costs and lagging:
        return None  # no task makes progress: the cost of a record is not known
    loads = {}
    for task, (actor, status) in now.items():
        old_actor, old = before[task]
        seconds = actor.running_s - old_actor.running_s
        if seconds <= 0:
            return None  # it has not answered since
        processed = (status.records_processed - old.records_processed) / seconds
        arrivals = max(0.0, processed + (status.lag - old.lag) / seconds)
        loads[task] = TaskLoad(actor.actor_id, arrivals, processed, status.lag, _cost(task, costs))
    return loads


def _cost(task: TaskId, costs: Mapping[TaskId, float]) -> float:
    """Returns the cost of a record; if ``task`` has processed none, the average of its sub-topology, or of all."""
    if task in costs or not costs:
        return costs.get(task, 0.0)
    alike = [cost for other, cost in costs.items() if other.subtopology == task.subtopology] or list(costs.values())
    return sum(alike) / len(alike)


def _share(then: ActorStatus, now: ActorStatus, before: _Reported, after: _Reported) -> float:
    """Returns the time that the actor was busy, all in all, per second that its tasks took."""
    mine = [task.task_id for task in now.tasks]
    tasks_s = sum(after[task][1].busy_s - before[task][1].busy_s for task in mine)
    busy_s = (now.running_s - then.running_s) - (now.idle_s - then.idle_s)
    return min(max(busy_s / tasks_s, 1.0), _LARGEST_SHARE) if tasks_s > 0 else 1.0
