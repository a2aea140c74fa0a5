"""The state and the status of an application, as its coordinator reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.actors.status import ActorStatus, TaskStatus
from penstock.cluster.health import UNKNOWN, Health
from penstock.cluster.rollout import NEVER, Rollout
from penstock.cluster.scaling_status import ScalingStatus
from penstock.common.ids import TaskId

WAITING, SILENT = "waiting", "silent"
"""States of a task that no actor has reported, and of one whose actor gives no sign of life."""


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
    has_just_resumed: bool = False
    """True while the shares of time that actors report still cover a part of the last pause."""
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
    moving: Mapping[TaskId, str] = field(default_factory=dict)
    """Task to the actor that it is to move to once its stores have caught up there."""
    missing_topic: str | None = None
    """A topic that the application needs does not exist any more, and what to do; also part of ``waiting``."""
    since: Mapping[str, int | None] = field(default_factory=dict)
    """The time (ms since 1970) at which each finding was first seen, by what it is about. See ``cluster/findings.py``.
    """

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
