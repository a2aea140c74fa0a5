"""Waits for rest: everything processed, committed, placed on a live actor with its standbys, and reported so."""

from __future__ import annotations

import time
from collections.abc import Collection

import psutil

from penstock.cluster.read_side import ApplicationState, ApplicationStatus, TaskState
from penstock.common.errors import StreamsError
from penstock.common.ids import TaskId
from penstock.testing.chaos.rig import APPLICATION, Rig, Role

_LOOK_EACH_S = 0.2
_RESTS_FOR_S = 3.0
"""At least once, a standby learns of the last commit a second later, and reports no lag until then."""


def come_to_rest(rig: Rig, timeout_s: float) -> str | None:
    """Wait until the application is at rest. Returns what keeps it from that when time is up, or when it has ended."""
    deadline = time.monotonic() + timeout_s
    rests_since: float | None = None
    while True:
        try:
            status = rig.app.status()
            unrest = _unsettled_reason(rig, status)
            if unrest is not None and not status.state.is_live:
                return unrest
        except StreamsError as error:
            unrest = str(error)
        now = time.monotonic()
        rests_since = None if unrest is not None else now if rests_since is None else rests_since
        if rests_since is not None and now - rests_since >= _RESTS_FOR_S:
            return None
        unrest = unrest or "it has just come to rest"
        if time.monotonic() > deadline:
            return f"not at rest after {timeout_s:.0f} s: {unrest}"
        time.sleep(_LOOK_EACH_S)


def _unsettled_reason(rig: Rig, status: ApplicationStatus) -> str | None:
    """Returns what is not at rest yet; None if all is."""
    if status.state is not ApplicationState.RUNNING:
        return f"state {status.state.value}: {status.error}"
    admin = rig.clients.admin()
    tasks = rig.plan.partitions
    ends = admin.end_offsets(rig.plan.reads)
    committed = {at: found.offset for at, found in admin.committed(APPLICATION).items()}
    behind = [f"{at} at {committed.get(at)} of {end}" for at, end in ends.items() if end and committed.get(at) != end]
    if behind:
        return f"not committed: {', '.join(behind)}"
    return _lagging(status) or _misplaced(rig, status, tasks.keys())


def _lagging(status: ApplicationStatus) -> str | None:
    tasks = [str(task.task_id) for task in status.tasks if task.lag or task.state is not TaskState.RUNNING]
    if tasks:
        return f"tasks that lag or do not run: {', '.join(tasks)}"
    standbys = [f"{each.task_id} by {each.lag}" for actor in status.actors for each in actor.standbys if each.lag]
    return f"standbys that lag: {', '.join(standbys)}" if standbys else None


def _misplaced(rig: Rig, status: ApplicationStatus, tasks: Collection[TaskId]) -> str | None:
    if status.placement.keys() != set(tasks):
        return f"only these tasks have a place: {', '.join(map(str, status.placement))}"
    alive = {process.pid for process in rig.processes(Role.STREAM_ACTOR) if process.status() != psutil.STATUS_STOPPED}
    homes = {task.task_id: actor for actor in status.actors for task in actor.tasks}
    homeless = [
        str(task)
        for task, actor_id in status.placement.items()
        if task not in homes or homes[task].actor_id != actor_id or homes[task].pid not in alive
    ]
    if homeless:
        return f"tasks without a live actor: {', '.join(homeless)}"
    copied = {each.task_id for actor in status.actors for each in actor.standbys}
    bare = [str(task) for task in tasks if task.subtopology in rig.plan.logged and task not in copied]
    return f"tasks without a standby: {', '.join(bare)}" if bare else None
