"""What the coordinator's state machine is told, and what it tells its shell to do. Values, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.actors.messages import ApplicationState, CommitRequest
from penstock.common.ids import TaskId, TopicPartition


class Timer(Enum):
    """The clocks that the machine asks for; setting one again replaces it."""

    GATHER = "do not wait any longer for actors that start"
    RESTART = "replace the actors that were lost"
    CALM = "forget the losses so far"


# ---- events ----


@dataclass(frozen=True)
class GroupAssigned:
    """The whole assignment of this member of the consumer group, each time it changes."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class ClusterResized:
    """How many CPUs the Ray cluster has."""

    cpus: int


@dataclass(frozen=True)
class ActorRecovered:
    """After a restart of the coordinator: an actor that lives, and what it holds."""

    actor_id: str
    epoch: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True)
class ActorUp:
    """The actor has started and waits for tasks."""

    actor_id: str


@dataclass(frozen=True)
class ActorAssigned:
    """The actor confirms assignment ``epoch``: whatever is not in it is committed and closed."""

    actor_id: str
    epoch: int


@dataclass(frozen=True)
class ActorReported:
    """The actor's tasks that run, that is, have restored."""

    actor_id: str
    running: frozenset[TaskId]


@dataclass(frozen=True)
class ActorStopped:
    """The actor has committed, closed all it held, and ended, as it was told to."""

    actor_id: str


@dataclass(frozen=True)
class ActorLost:
    """The actor's process is gone."""

    actor_id: str
    reason: str


@dataclass(frozen=True)
class ActorFailed:
    """A task on the actor failed for good: no other actor would do better."""

    actor_id: str
    error: str


@dataclass(frozen=True)
class ApplicationFailed:
    """Something all actors depend on failed for good."""

    error: str


@dataclass(frozen=True)
class CommitRequested:
    """An actor asks to commit."""

    request: CommitRequest


@dataclass(frozen=True)
class StopRequested:
    """A user wants the application to end."""


@dataclass(frozen=True)
class TimerFired:
    """A clock that the machine asked for has run out."""

    timer: Timer


Event = (
    GroupAssigned
    | ClusterResized
    | ActorRecovered
    | ActorUp
    | ActorAssigned
    | ActorReported
    | ActorStopped
    | ActorLost
    | ActorFailed
    | ApplicationFailed
    | CommitRequested
    | StopRequested
    | TimerFired
)

# ---- instructions ----


@dataclass(frozen=True)
class StartActor:
    """Create the actor; answer ActorUp, or ActorFailed or ActorLost."""

    actor_id: str


@dataclass(frozen=True)
class AssignTasks:
    """Tell the actor that these, and no others, are its tasks; answer ActorAssigned once the others are released."""

    actor_id: str
    epoch: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True)
class StopActor:
    """Let the actor commit, close and end; answer ActorStopped (or ActorLost)."""

    actor_id: str


@dataclass(frozen=True)
class KillActor:
    """End the actor at once; the machine has forgotten it already, no answer is expected."""

    actor_id: str


@dataclass(frozen=True)
class AcceptCommit:
    """Commit for the actor."""

    request: CommitRequest


@dataclass(frozen=True)
class RefuseCommit:
    """Do not commit; ``reason`` is for the actor's log."""

    request: CommitRequest
    reason: str


@dataclass(frozen=True)
class SetTimer:
    """Answer TimerFired after ``delay_ms``."""

    timer: Timer
    delay_ms: int


@dataclass(frozen=True)
class SetState:
    """The application is in another state."""

    state: ApplicationState
    error: str | None = None


Instruction = StartActor | AssignTasks | StopActor | KillActor | AcceptCommit | RefuseCommit | SetTimer | SetState
