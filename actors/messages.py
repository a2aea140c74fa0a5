"""Values that travel between actors: questions, answers, commits and status.

``docs/PROTOCOL.md`` describes which actor sends what to which, and what fences it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.actors.commit_stops import NO_STOPS, CommitStops
from penstock.actors.health import UNKNOWN, Health
from penstock.actors.rollout import NEVER, Rollout
from penstock.actors.scaling_status import ScalingStatus
from penstock.common.config import StreamsConfig
from penstock.common.handlers import UncaughtExceptionHandler, UncaughtExceptionResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import Measured
from penstock.common.partitioners import Partitioner
from penstock.common.position import NOWHERE, Position
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.standby_listener import StandbyUpdateListener
from penstock.state.queries import Query, QueryRow
from penstock.topology.physical.topology import Topology


@dataclass(frozen=True)
class ApplicationSpec:
    """Everything that an actor needs to be part of an application. Cloudpickle ships it, so user functions travel with
    it."""

    topology: Topology
    config: StreamsConfig
    restore_listener: StateRestoreListener | None = None
    uncaught_exception_handler: UncaughtExceptionHandler | None = None
    paused: bool = False
    """True if it starts paused."""
    standby_listener: StandbyUpdateListener | None = None
    take_over: bool = False
    """True if it takes the place of an application of the same id and state directory in another Ray cluster."""

    @property
    def application_id(self) -> str:
        """``application.id``."""
        return self.config.application_id


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
    """The version of the program that it runs, as :class:`~penstock.actors.rollout.Rollout` counts them."""
    incarnation: int = 0
    """The highest incarnation of a coordinator that its lease has heard of."""
    waits: bool = False
    """True if it waits for a broker, the coordinator, or the stores of a task: it continues when the answer comes."""
    without_lease: bool = False
    """True if its lease is over (at least once): it processes nothing until the coordinator answers."""
    lease_expirations: int = 0
    """The number of its leases that have ended so far."""


@dataclass(frozen=True)
class ActorEnd:
    """The end of an actor's loop: its error and what is to be done about it; or no error, after a stop. ``in_doubt``:
    nobody knows whether its last commit has happened, or will. ``disk_of``: the Ray node whose disk has failed; empty
    if the error has another cause."""

    error: str | None = None
    response: UncaughtExceptionResponse = UncaughtExceptionResponse.SHUTDOWN_CLIENT
    in_doubt: bool = False
    disk_of: str = ""


@dataclass(frozen=True)
class CommitRequest:
    """Offsets that an actor asks the coordinator to commit, refused unless ``epoch`` is the actor's current one.
    Exactly once it asks, without offsets, as which member of the group it may commit, and waits until ``epoch`` is
    that. ``number`` counts the actor's commits: a request that is repeated keeps it, and must not undo a later one."""

    actor_id: str
    epoch: int
    offsets: Mapping[TopicPartition, tuple[int, str]]
    number: int = 0
    presence: bool = False
    """Exactly once, the actor only asks if it is still part of the application: answered at once, under any epoch."""


@dataclass(frozen=True)
class CommitAnswer:
    """Answer of ``coordinator.commit(CommitRequest)``. A refusal is final: the partitions are another's now.

    Exactly once, acceptance means that the actor may commit, and ``group_metadata`` is what it shows to the group.
    """

    accepted: bool
    reason: str = ""
    group_metadata: bytes = b""


@dataclass(frozen=True)
class StoreQuery:
    """One question to one task's store: at most ``limit`` rows, those behind the one with the key ``after``.

    ``committed`` leaves out what is not yet committed. ``bound``: the store must have come that far; of a task, the
    offsets of its own partition count. ``stale``: a standby may answer, or a task that restores.
    """

    task_id: TaskId
    store: str
    query: Query
    after: bytes | None = None
    limit: int = 1
    committed: bool = False
    bound: Position | None = None
    stale: bool = False


class QueryFailure(Enum):
    """Reasons for which a question has no answer (names of Kafka Streams' ``FailureReason``, which has no BUSY or
    UNKNOWN_TOPIC)."""

    NOT_PRESENT = "the task is not on this actor"
    NOT_ACTIVE = "the task restores"
    DOES_NOT_EXIST = "the task has no such store"
    STORE_EXCEPTION = "the store cannot be read"
    UNKNOWN_QUERY_TYPE = "this kind of store does not answer this kind of query"
    NOT_UP_TO_BOUND = "the store has not come to the position that was demanded"
    UNKNOWN_TOPIC = "the position that was demanded is one of topics that the store is not kept from"
    BUSY = "too many calls with ranges wait"


@dataclass(frozen=True)
class StoreAnswer:
    """The answer to one :class:`StoreQuery`: its rows, or the reason why there is none.

    ``size`` is about what the rows of a range take, in bytes. ``more``: they were cut off, the rest is to be asked for
    behind ``reached``. ``position`` is how far the store had come when the
    first of them was read; ``answered`` names the queries of a store that does not answer this one.
    """

    rows: tuple[QueryRow, ...] = ()
    failure: QueryFailure | None = None
    detail: str = ""
    size: int = 0
    more: bool = False
    reached: bytes | None = None
    position: Position = NOWHERE
    answered: tuple[str, ...] = ()


class ApplicationState(Enum):
    """The life of an application (Kafka Streams' ``KafkaStreams.State``). ``docs/LIFECYCLE.md`` draws which state may
    follow which, ``cluster/coordinator/state_transitions.py`` holds it."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    @property
    def is_live(self) -> bool:
        """True if the application works, or is about to: tasks are assigned."""
        return self in (ApplicationState.CREATED, ApplicationState.REBALANCING, ApplicationState.RUNNING)

    @property
    def has_ended(self) -> bool:
        """True if no other state follows; its actors are gone."""
        return self in (ApplicationState.NOT_RUNNING, ApplicationState.ERROR)


@dataclass(frozen=True)
class StuckTask:
    """A task that runs, has records to read, and has come no further for ``for_s`` seconds. Of its source partitions
    the one with the largest ``lag`` is named, with the ``offset`` of the record that would be processed next."""

    task_id: TaskId
    actor_id: str
    topic: str
    partition: int
    offset: int | None
    lag: int
    for_s: float

    def __str__(self) -> str:
        return (
            f"task {self.task_id} on {self.actor_id} has processed nothing for {self.for_s:.0f} s: it is at offset "
            f"{self.offset} of partition {self.partition} of topic {self.topic!r}, {self.lag} records before its end"
        )


@dataclass(frozen=True)
class ApplicationStatus:
    """The coordinator's knowledge of an application: answers ``penstock status`` and ``GET /v1/applications/{app}``."""

    application_id: str
    state: ApplicationState
    epoch: int
    actors: tuple[ActorStatus, ...]
    placement: Mapping[TaskId, str]
    """Task to actor id, for every task that an actor has."""
    http_address: str | None = None
    error: str | None = None
    waiting: str | None = None
    """Notice of what the application waits for: a broker, its session in the group, or a CPU, and which applications
    have the CPUs."""
    paused: bool = False
    """True if ``pause`` keeps its tasks from processing."""
    stuck: tuple[StuckTask, ...] = ()
    """Tasks that make no progress although they have records to read."""
    scaling: ScalingStatus | None = None
    """None before it has actors."""
    unhosted: Mapping[TaskId, str] = field(default_factory=dict)
    """Every task of this cluster's that no actor has now, and what it waits for. Its lag is not known."""
    silent: frozenset[str] = frozenset()
    """The actors whose process has given no sign of life for seconds: what they last reported may not hold any more."""
    rollout: Rollout = NEVER
    """The version of the program that runs, and the progress of the last roll-out."""
    health: Health = UNKNOWN

    missing_topic: str | None = None
    """A topic that the application needs does not exist any more, and what to do; also part of ``waiting``."""

    @property
    def lag_is_known(self) -> bool:
        """True if every task has an actor that reports its lag."""
        return not self.unhosted and not self.silent.intersection(self.placement.values())

    @property
    def task_count(self) -> int:
        """Number of tasks that the group has given to this cluster, hosted or not."""
        return len(self.placement) + len(self.unhosted)

    @property
    def tasks(self) -> tuple[TaskStatus, ...]:
        """Tasks that the actors report; one that moves may be missing."""
        return tuple(task for actor in self.actors for task in actor.tasks)


@dataclass(frozen=True)
class StoreMetadata:
    """The tasks that have a store's keys: ``(subtopology, 0)`` to ``(subtopology, partitions - 1)``. A global store has
    one partition here, for which any actor that has tasks answers.

    ``partitioner``, of the key as ``source_topic`` has it, says in which task a key is looked for first. ``certain``:
    no other task can have it. ``serde_topic`` is what the store's serdes are bound to; for most serdes the bytes are
    the same everywhere. ``views``: the names of the ``QueryableStoreTypes`` that it may be asked as.
    """

    name: str
    kind: str
    subtopology: int
    partitions: int
    serde_topic: str
    source_topic: str
    certain: bool = False
    partitioner: Partitioner = Partitioner.MURMUR2
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class ApplicationMetadata:
    """Everything that a reader needs to route a query. ``actors`` maps actor id to a Ray actor handle; ``standbys``:
    the actors that keep standbys of each task. ``generation``: the version of the program that the stores
    are of."""

    application_id: str
    epoch: int
    stores: Mapping[str, StoreMetadata]
    placement: Mapping[TaskId, str]
    actors: Mapping[str, Any]
    standbys: Mapping[TaskId, tuple[str, ...]] = field(default_factory=dict)
    generation: int = 1
