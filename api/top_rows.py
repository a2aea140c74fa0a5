"""The figures of an application, as values: for the page and for ``penstock top``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.api.standbys import StandbyRow, standbys_of
from penstock.api.status import findings_body
from penstock.cluster.findings import Finding, findings, share_of, share_of_task
from penstock.cluster.read_side import SILENT, WAITING, ActorStatus, ApplicationStatus, TaskState, TaskStatus
from penstock.common.ids import TaskId
from penstock.common.metric_names import TASK


@dataclass(frozen=True)
class Restore:
    """Progress of a restore: records that were restored, offsets to go, and the estimated seconds left."""

    restored: int
    remaining: int
    seconds_left: float | None

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1."""
        whole = self.restored + self.remaining
        return self.restored / whole if whole else 1.0


@dataclass(frozen=True)
class TaskRow:
    """A task. Figures are None while they are not known; ``busy`` is a share of its actor's time."""

    task_id: TaskId
    actor_id: str | None
    state: str
    behind_s: float | None
    lag: int | None
    records_per_s: float | None
    busy: float | None
    restore: Restore | None
    standbys: tuple[StandbyRow, ...]
    waits_for: str | None


@dataclass(frozen=True)
class ActorRow:
    """A stream actor. The commit pauses, in ms, are those of the last minute."""

    actor_id: str
    node_id: str
    state: str
    busy: float | None
    commit_pause_p50_ms: float
    commit_pause_max_ms: float
    commits: int
    tasks: int
    standbys: int


@dataclass(frozen=True)
class Top:
    """The figures of an application at one moment. ``lag`` and ``behind_s`` are of all tasks, as far as they are
    known."""

    application_id: str
    state: str
    paused: bool
    http_address: str | None
    findings: tuple[Finding, ...]
    lag: int
    lag_is_known: bool
    behind_s: float | None
    tasks: tuple[TaskRow, ...]
    actors: tuple[ActorRow, ...]

    def body(self) -> dict[str, Any]:
        """Returns the document of ``--json``; the slowest task is first."""
        tasks = [{**asdict(row), "task_id": str(row.task_id)} for row in slowest_first(self.tasks)]
        return {
            **asdict(self),
            "findings": findings_body(self.findings),
            "tasks": tasks,
            "actors": [asdict(row) for row in self.actors],
        }


def top_of(status: ApplicationStatus, rates: Mapping[TaskId, float] | None = None) -> Top:
    """Returns the figures of ``status``. ``rates``: records per second of each task; by default the tasks' own figures,
    which are of the last half minute."""
    reported = {task.task_id: (actor, task) for actor in status.actors for task in actor.tasks}
    standbys, rows = standbys_of(status), []
    for task_id in sorted({*reported, *status.placement, *status.unhosted}):
        kept = standbys.get(task_id, ())
        if task_id not in reported or task_id in status.unhosted:
            waits_for = status.unhosted.get(task_id)
            rows.append(_unreported(task_id, status.placement.get(task_id), waits_for, kept))
        else:
            rows.append(_task(status, *reported[task_id], rates, kept))
    behind = [row.behind_s for row in rows if row.behind_s is not None]
    return Top(
        status.application_id,
        status.state.value,
        status.paused,
        status.http_address,
        findings(status),
        sum(row.lag for row in rows if row.lag is not None),
        status.lag_is_known,
        max(behind, default=None),
        tuple(rows),
        tuple(_actor(status, actor) for actor in status.actors),
    )


def slowest_first(rows: tuple[TaskRow, ...]) -> list[TaskRow]:
    """Returns the tasks that are furthest behind first: first those whose actors do not answer, then those that
    restore."""
    return sorted(rows, key=slowness, reverse=True)


def slowness(row: TaskRow) -> tuple[int, float, int]:
    """Returns a key by which slower tasks are greater."""
    if row.state in (WAITING, SILENT):
        return 2, 0.0, 0
    if row.state != TaskState.RUNNING.value:
        left = row.restore.seconds_left if row.restore is not None else None
        return 1, left or 0.0, row.restore.remaining if row.restore is not None else 0
    return 0, row.behind_s or 0.0, row.lag or 0


def _unreported(
    task_id: TaskId, actor_id: str | None, waits_for: str | None, standbys: tuple[StandbyRow, ...]
) -> TaskRow:
    return TaskRow(task_id, actor_id, WAITING, None, None, None, None, None, standbys, waits_for)


def _task(
    status: ApplicationStatus,
    actor: ActorStatus,
    task: TaskStatus,
    rates: Mapping[TaskId, float] | None,
    standbys: tuple[StandbyRow, ...],
) -> TaskRow:
    if actor.actor_id in status.silent:
        return TaskRow(task.task_id, actor.actor_id, SILENT, None, None, None, None, None, standbys, None)
    restore = None
    if task.state is TaskState.RESTORING:
        restore = Restore(task.restore_total, task.restore_remaining, task.restore_seconds_left)
    own = task.measured.get((TASK, "process-rate"))
    rate = rates.get(task.task_id) if rates is not None else own if isinstance(own, float | int) else None
    figures = task.behind_s, task.lag, rate, share_of_task(task)
    return TaskRow(task.task_id, actor.actor_id, task.state.value, *figures, restore, standbys, None)


def _actor(status: ApplicationStatus, actor: ActorStatus) -> ActorRow:
    silent = actor.actor_id in status.silent
    stops = actor.commit_stops
    return ActorRow(
        actor.actor_id,
        actor.node_id,
        _actor_state(actor, silent),
        None if silent else share_of(actor),
        stops.minute_p50_ms,
        stops.minute_max_ms,
        actor.commits,
        len(actor.tasks),
        len(actor.standbys),
    )


def _actor_state(actor: ActorStatus, silent: bool) -> str:
    if actor.error is not None:
        return "failed"
    if silent:
        return SILENT
    if actor.without_lease:
        return "without lease"
    if actor.stopping:
        return "stopping"
    return "paused" if actor.paused else "running"
