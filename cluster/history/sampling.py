"""Makes a sample from a status of an application: rates are those since the sample before."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.application_history import (
    BUSY_STEPS,
    BUSY_UNKNOWN,
    NO_ACTOR,
    TASK_STATES,
    Flow,
    Sample,
    Totals,
)
from penstock.cluster.findings import Finding, findings
from penstock.cluster.history.event_list import clipped
from penstock.cluster.history.flows import Flows
from penstock.cluster.status import SILENT, WAITING, ApplicationStatus
from penstock.common.ids import TaskId
from penstock.common.metric_names import TASK

LONGEST_FINDING = 240
"""Characters of the sentence that a sample keeps."""
_DEAD_LETTERS = (TASK, "dead-letters-total")


class _Counts(NamedTuple):
    """Counts of a task since its actor has opened it; they begin again when it moves."""

    actor_id: str
    records: int
    busy_s: float
    dead_letters: float


class _Rates(NamedTuple):
    records_per_s: float
    busy: float


_STATES = {state: index for index, state in enumerate(TASK_STATES)}
_NOT_KNOWN = _Rates(math.nan, math.nan)


class Sampling:
    """Counts of the sample before. Each actor's rates are by its own clock, so that it does not matter when its status
    arrived; those of an actor without a new status are not known."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, _Counts] = {}
        self._actors: dict[str, tuple[float, int]] = {}  # running_s and commits
        self._flows = Flows()

    def take(self, status: ApplicationStatus, tasks: Iterable[TaskId], at_ms: int) -> Sample:
        """Returns the sample of these tasks."""
        listed = tuple(sorted(tasks))
        reported = {
            task.task_id: task for actor in status.actors if actor.actor_id not in status.silent for task in actor.tasks
        }
        seconds = {actor.actor_id: self._seconds(actor) for actor in status.actors}
        commits = [self._commits_per_s(actor, seconds[actor.actor_id]) for actor in status.actors]
        counts = {
            task.task_id: _Counts(actor.actor_id, task.records_processed, task.busy_s, _dead_letters(task))
            for actor in status.actors
            for task in actor.tasks
            if seconds[actor.actor_id]
        }
        rates = {task: self._rates(task, now, seconds[now.actor_id]) for task, now in counts.items()}
        letters = sum(_gain(now.dead_letters, self._before(task, now).dead_letters) for task, now in counts.items())
        behind = {task: it.behind_s for task, it in reported.items() if it.behind_s is not None}
        totals = Totals(
            _sum(rate.records_per_s for rate in rates.values()),
            sum(task.lag for task in reported.values()) if status.lag_is_known and reported else math.nan,
            max(behind.values(), default=math.nan),
            _sum(commits),
            sum(task.state is TaskState.RESTORING for task in reported.values()),
            float(letters) if counts else math.nan,
        )
        self._remember(status, counts, listed)
        flow, worst = self._flows.take(status, seconds), findings(status)[0]
        finding = replace(worst, sentence=clipped(worst.sentence, LONGEST_FINDING))
        return _sample(at_ms, totals, listed, status, rates, behind, flow, finding)

    def _seconds(self, actor: ActorStatus) -> float:
        """The seconds since the sample before, by the clock of the actor; 0 if it has given no status since."""
        before, _ = self._actors.get(actor.actor_id, (0.0, 0))
        return _gain(actor.running_s, before)

    def _commits_per_s(self, actor: ActorStatus, seconds: float) -> float:
        if not seconds or actor.actor_id not in self._actors:
            return math.nan
        return _gain(actor.commits, self._actors[actor.actor_id][1]) / seconds

    def _before(self, task: TaskId, now: _Counts) -> _Counts:
        """The counts before. They are those of now for a task that was never seen: it may have run for days."""
        before = self._tasks.get(task, now)
        return before if before.actor_id == now.actor_id else _Counts(now.actor_id, 0, 0.0, 0.0)

    def _rates(self, task: TaskId, now: _Counts, seconds: float) -> _Rates:
        if task not in self._tasks:
            return _NOT_KNOWN
        before = self._before(task, now)
        return _Rates(
            _gain(now.records, before.records) / seconds, min(1.0, _gain(now.busy_s, before.busy_s) / seconds)
        )

    def _remember(self, status: ApplicationStatus, counts: Mapping[TaskId, _Counts], tasks: Iterable[TaskId]) -> None:
        known = self._tasks | dict(counts)
        self._tasks = {task: known[task] for task in tasks if task in known}
        self._actors = {actor.actor_id: (actor.running_s, actor.commits) for actor in status.actors}


def _sample(
    at_ms: int,
    totals: Totals,
    tasks: tuple[TaskId, ...],
    status: ApplicationStatus,
    rates: Mapping[TaskId, _Rates],
    behind: Mapping[TaskId, float],
    flow: Flow,
    finding: Finding,
) -> Sample:
    placement = status.placement
    actors = tuple(sorted(set(placement.values())))
    index = {name: at for at, name in enumerate(actors)}
    states = {task.task_id: task.state.value for task in status.tasks}
    states |= {task: SILENT for task, actor in placement.items() if actor in status.silent}
    found = [rates.get(task, _NOT_KNOWN) for task in tasks]
    return Sample(
        at_ms,
        array("d", totals),
        tasks,
        actors,
        array("f", (rate.records_per_s for rate in found)),
        array("f", (behind.get(task, math.nan) for task in tasks)),
        array("B", (BUSY_UNKNOWN if math.isnan(it.busy) else round(it.busy * BUSY_STEPS) for it in found)),
        array("H", (index[placement[task]] if task in placement else NO_ACTOR for task in tasks)),
        array("B", (_STATES[WAITING if task in status.unhosted else states.get(task, WAITING)] for task in tasks)),
        flow,
        finding,
    )


def _dead_letters(task: TaskStatus) -> float:
    value = task.measured.get(_DEAD_LETTERS, 0.0)
    return value if isinstance(value, int | float) else 0.0


def _gain(now: float, before: float) -> float:
    """Returns the growth of a count, which may have begun again at 0."""
    return now - before if now >= before else now


def _sum(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan
