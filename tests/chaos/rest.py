"""Back to rest: everything processed, committed, placed on a live actor, and said so."""

from __future__ import annotations

import time

import psutil

from penstock.cluster.read_side import ApplicationState, TaskState
from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from tests.chaos import program
from tests.chaos.rig import APPLICATION, Rig, Role

_LOOK_EACH_S = 0.2
SOURCES = (program.INPUT, program.repartition_topic(APPLICATION))


def come_to_rest(rig: Rig, timeout_s: float) -> str | None:
    """Wait until the application is at rest; what keeps it from that when time is up, or when it has ended."""
    deadline = time.monotonic() + timeout_s
    while (unrest := _unrest(rig)) is not None:
        if any(unrest.startswith(f"state {state.value}:") for state in ApplicationState if not state.is_live):
            return unrest
        if time.monotonic() > deadline:
            return f"not at rest after {timeout_s:.0f} s: {unrest}"
        time.sleep(_LOOK_EACH_S)
    return None


def _unrest(rig: Rig) -> str | None:
    """What is not at rest yet; None when all is."""
    try:
        status = rig.app.status()
        if status.state is not ApplicationState.RUNNING:
            return f"state {status.state.value}: {status.error}"
        admin = rig.clients.admin()
        ends = admin.end_offsets([TopicPartition(t, p) for t in SOURCES for p in range(program.PARTITIONS)])
        committed = {at: found.offset for at, found in admin.committed(APPLICATION).items()}
    except StreamsError as error:
        return str(error)
    behind = [f"{at} at {committed.get(at)} of {end}" for at, end in ends.items() if end and committed.get(at) != end]
    if behind:
        return f"not committed: {', '.join(behind)}"
    lagging = [str(task.task_id) for task in status.tasks if task.lag or task.state is not TaskState.RUNNING]
    if lagging:
        return f"tasks that lag or do not run: {', '.join(lagging)}"
    if len(status.placement) != len(SOURCES) * program.PARTITIONS:
        return f"only these tasks have a place: {', '.join(map(str, status.placement))}"
    alive = {process.pid for process in rig.processes(Role.STREAM_ACTOR) if process.status() != psutil.STATUS_STOPPED}
    homes = {task.task_id: actor for actor in status.actors for task in actor.tasks}
    homeless = [
        str(task)
        for task, actor_id in status.placement.items()
        if task not in homes or homes[task].actor_id != actor_id or homes[task].pid not in alive
    ]
    return f"tasks without a live actor: {', '.join(homeless)}" if homeless else None
