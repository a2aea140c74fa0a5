"""Reports of a stream actor on its tasks and standbys, and on its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.actors.commit_stops import NO_STOPS, CommitStops
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log_line import LogLine
from penstock.common.metric_names import Measured
from penstock.common.partitioners import Partitioner


class TaskState(Enum):
    """The life of a task on its actor.

    ::

        CREATED ──> RESTORING ──> RUNNING ──> CLOSED
           │            └─────────────────────^
           └──────────────────────────────────^
    """

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True)
class RestoreFigures:
    """Progress of the stores of one task: offsets that they lack, records that they got since the task was opened, and
    how many of them per second of late, 0 when nothing is restored."""

    remaining: int = 0
    total: int = 0
    rate: float = 0.0


@dataclass(frozen=True)
class TaskStatus:
    """One task as its actor sees it. Lags are records between position and end, per source partition; lost records
    were deleted by retention before they were read (counted in offsets). What begins with ``restore``: see
    :class:`RestoreFigures`. ``positions``: the next offset to process. ``measured``: all other metrics."""

    task_id: TaskId
    state: TaskState
    records_processed: int = 0
    dropped_records: int = 0
    restore_remaining: int = 0
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    lost_records: int = 0
    restore_total: int = 0
    restore_rate: float = 0.0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    measured: Measured = field(default_factory=dict)
    busy_s: float = 0.0
    """Seconds that its actor has worked on its records since it was opened."""
    partitioners: Mapping[str, Partitioner] = field(default_factory=dict)
    """The source topics that another partitioner than Kafka's default is known to have written."""
    parted: tuple[tuple[str, ...], ...] = ()
    """Topics that are joined, or merged, although different partitioners wrote them: results are missing."""
    dropped_by_handlers: int = 0
    """Those of ``dropped_records`` that a handler of exceptions dropped, and reported as it liked."""
    waits_for: str | None = None
    """The partitions whose next record cannot be decoded now, because a serde cannot answer, and the reason; None if
    there are none."""
    checkpoint_error: str | None = None
    """The error of the last attempt to store a checkpoint; None if it has succeeded, or there was none."""
    behind_s: float | None = None
    """Seconds that it is behind the ends of its source partitions: see :class:`~penstock.actors.task_host.time_lag
    .TimeLag`. None while it is not known, as before its first record."""

    @property
    def restore_seconds_left(self) -> float | None:
        """Estimated seconds until the restore ends; None if nothing is restored, or if it makes no progress."""
        return self.restore_remaining / self.restore_rate if self.restore_remaining and self.restore_rate else None

    @property
    def lag(self) -> int:
        """Lag of all its source partitions together, in records."""
        return sum(self.lags.values())


@dataclass(frozen=True)
class StandbyStatus:
    """One standby as its actor sees it. ``lag``: about how many offsets of its changelogs it lacks; ``restored``: the
    records that it has read since it was opened."""

    task_id: TaskId
    lag: int
    restored: int = 0


@dataclass(frozen=True)
class ActorStatus:
    """One stream actor. ``epoch`` is that of the last assignment it took; ``error`` says why its loop ended;
    ``stopping``: it was asked to stop and takes no tasks any more. ``global_dropped_records`` were dropped by its
    global stores, if it has any."""

    actor_id: str
    node_id: str
    pid: int
    epoch: int
    tasks: tuple[TaskStatus, ...]
    commits: int = 0
    error: str | None = None
    stopping: bool = False
    slot: int = 0
    """Exactly once, the part of its ``transactional.id`` that no other actor of the application has."""
    aborted_transactions: int = 0
    commit_stops: CommitStops = NO_STOPS
    global_dropped_records: int | None = None
    paused: bool = False
    standbys: tuple[StandbyStatus, ...] = ()
    """The standbys that it keeps, of tasks of other actors."""
    measured: Measured = field(default_factory=dict)
    """Other metrics, of all tasks together."""
    running_s: float = 0.0
    """Seconds since its loop began; in ``idle_s`` of them it had nothing to do."""
    idle_s: float = 0.0
    generation: int = 1
    """The version of the program that it runs, as :class:`~penstock.cluster.rollout.Rollout` counts them."""
    incarnation: int = 0
    """The highest incarnation of a coordinator that its lease has heard of."""
    waits: bool = False
    """True if it waits for a broker, the coordinator, or the stores of a task: it continues when the answer comes."""
    without_lease: bool = False
    """True if its lease is over (at least once): it processes nothing until the coordinator answers."""
    lease_expirations: int = 0
    """The number of its leases that have ended so far."""
    log: tuple[LogLine, ...] = ()
    """Warnings and errors of its process that may not have arrived yet; those that have may come again."""

    @property
    def without_log(self) -> ActorStatus:
        """The status alone."""
        return replace(self, log=()) if self.log else self


@dataclass(frozen=True)
class ActorEnd:
    """The end of an actor's loop: its error and the response to it, or no error after a stop.

    ``in_doubt``: true if its last commit is in doubt (see the glossary). ``disk_of``: the Ray node whose disk has
    failed; empty if the error has another cause.
    """

    error: str | None = None
    response: UncaughtExceptionResponse = UncaughtExceptionResponse.SHUTDOWN_CLIENT
    in_doubt: bool = False
    disk_of: str = ""
