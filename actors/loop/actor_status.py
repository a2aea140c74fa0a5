"""The status of an actor and of its tasks, for a caller that asks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.checkpoints.taking import CheckpointTaking
from penstock.actors.clock import Clock
from penstock.actors.commits.committing import Commits
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.loop.thread_meters import (
    DEAD,
    PARTITIONS_ASSIGNED,
    PENDING_SHUTDOWN,
    RUNNING,
    ThreadMeters,
    add_shares,
)
from penstock.actors.loop.thread_time import ThreadTime
from penstock.actors.restore.restoration import Restoration
from penstock.actors.status import TaskState, TaskStatus
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.metric_names import TASK, Measured


def statuses(
    tasks: Collection[HostedTask],
    meters: ThreadMeters,
    reader: SourceReader,
    restoration: Restoration,
    commits: Commits,
    taking: CheckpointTaking,
    time: ThreadTime,
    clock: Clock,
    *,
    stopping: bool,
    ended: bool,
) -> tuple[tuple[TaskStatus, ...], Measured]:
    """Returns the status of each task, and measurements of all together. ``stopping``: the actor was asked to stop."""
    now_s, wall_ms = clock.monotonic_s(), clock.wall_ms()
    restored = [restoration.progress(hosted) for hosted in tasks]
    state = _state(tasks, stopping, ended)
    restore_rate = sum(figures.rate for figures in restored)
    counted = [(hosted.meters, hosted.counted()) for hosted in tasks]
    # Before the tasks' own measurements, which reset their maxima.
    measured = meters.measured(counted, reader, commits.stops, commits.accepted, state, restore_rate, now_s)
    measured |= time.measured(now_s)
    reported = tuple(
        hosted.status(reader.consumer, figures, now_s, wall_ms) for hosted, figures in zip(tasks, restored, strict=True)
    )
    add_shares(status.measured for status in reported)
    return tuple(_with_checkpoints(each, taking, restoration.fetching, wall_ms) for each in reported), measured


def _with_checkpoints(
    status: TaskStatus, taking: CheckpointTaking, fetching: CheckpointFetching, wall_ms: int
) -> TaskStatus:
    if not fetching.enabled or not status.measured:
        return status
    figures = taking.figures(status.task_id)
    measured = figures.measured(wall_ms) if figures is not None else {}
    measured[TASK, "checkpoint-restored-bytes"] = fetching.fetched_bytes.get(status.task_id, 0)
    error = None if figures is None else figures.error
    return replace(status, measured={**status.measured, **measured}, checkpoint_error=error)


def _state(tasks: Collection[HostedTask], stopping: bool, ended: bool) -> int:
    if ended or stopping:
        return DEAD if ended else PENDING_SHUTDOWN
    starting = any(hosted.state in (TaskState.CREATED, TaskState.RESTORING) for hosted in tasks)
    return PARTITIONS_ASSIGNED if starting else RUNNING
