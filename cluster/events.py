"""The events that the coordinator's state machine takes, and its instructions. Values, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.rollout import Hold, Rollout
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import Wishes
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import TaskPlan


class Timer(Enum):
    """The timers that the machine asks for; setting one again replaces it."""

    WAIT_FOR_ACTORS = "do not wait any longer for actors that start"
    REPLACE_ACTORS = "replace the actors that were lost"
    FORGET_LOSSES = "forget the losses so far"
    PROBE = "see which warm-ups have come nearer"
    WATCHED = "a new version of the program has been watched for long enough"
    ROOM_TAKEN = "a new actor has had the time to start where an old one made room"
    TRY_DISKS = "start actors again on the nodes whose disk failed"


# ---- events ----


@dataclass(frozen=True)
class GroupAssigned:
    """The whole assignment of this member of the consumer group, each time the group has given one, and what a
    transaction shows to be the member's of that generation; None: its session is lost."""

    partitions: frozenset[TopicPartition] | None
    group_metadata: bytes = b""


@dataclass(frozen=True)
class GroupRebalances:
    """The group assigns its partitions again. Until GroupAssigned comes, the actors process nothing: the next owner of
    a partition continues where the last commit is."""


@dataclass(frozen=True)
class ClusterResized:
    """The number of CPUs of the Ray cluster; the labels of its nodes, and the CPUs of each, by their ids."""

    cpus: int
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cpus_of: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ActorsWanted:
    """Number of stream actors that should run, whatever CPUs the Ray cluster has; no more than the tasks can use."""

    count: int


@dataclass(frozen=True)
class NodesDraining:
    """All nodes that will be gone, and in how many seconds; None: the node waits until nothing runs there any more."""

    seconds_left: Mapping[str, float | None]


@dataclass(frozen=True)
class TasksPlanned:
    """A source topic has got partitions: the tasks there are from now on."""

    plan: TaskPlan


@dataclass(frozen=True)
class ActorRecovered:
    """After a restart of the coordinator: an actor that lives, and what it holds. ``stopping``: an earlier coordinator
    asked it to stop, so it takes no tasks any more. ``lags``: as in :class:`ActorReported`."""

    actor_id: str
    epoch: int
    tasks: frozenset[TaskId]
    stopping: bool = False
    slot: int = 0
    node: str = ""
    standbys: frozenset[TaskId] = frozenset()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    generation: int = 1


@dataclass(frozen=True)
class ActorUp:
    """The actor has started, on this Ray node, and waits for tasks."""

    actor_id: str
    node: str = ""


@dataclass(frozen=True)
class ActorAssigned:
    """The actor confirms assignment ``epoch``: whatever is not in it is committed and closed."""

    actor_id: str
    epoch: int


@dataclass(frozen=True)
class ActorReported:
    """The actor's tasks that run, that is, have restored, and how many offsets its standbys lack; ``epoch`` is the last
    assignment it had taken by then."""

    actor_id: str
    running: frozenset[TaskId]
    epoch: int
    lags: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ActorSilent:
    """The actor's process gives no sign of life for some seconds; or, if not ``silent``, it does again. It keeps its
    tasks, but its last report may be outdated."""

    actor_id: str
    silent: bool


@dataclass(frozen=True)
class ActorStopped:
    """The actor has committed, closed all it held, and ended without an error. Unless this coordinator stopped it (an
    earlier one did), it counts as lost. ``in_doubt``: it is not known if its last commit has happened, or will."""

    actor_id: str
    in_doubt: bool = False


@dataclass(frozen=True)
class ActorLost:
    """The actor's process is gone, or seems to be. ``created``: there was one. ``may_write_s``: at least once, seconds
    after which it certainly writes nothing any more; 0 if its process is known to have ended."""

    actor_id: str
    created: bool = True
    may_write_s: float = 0.0


@dataclass(frozen=True)
class ActorsUnaccounted:
    """A coordinator was there before this one, and may have had actors that this one has not found. At least once, they
    certainly write nothing any more after ``may_write_s``."""

    may_write_s: float


@dataclass(frozen=True)
class ProcessDied:
    """The process of an actor of this version was lost, and its node is still there: the program may have ended it."""

    generation: int


@dataclass(frozen=True)
class ActorFenced:
    """The actor can write nothing any more, wherever its process is."""

    actor_id: str


@dataclass(frozen=True)
class ActorFailed:
    """A task on the actor failed; ``response`` is what the uncaught exception handler has answered to it.
    ``disk_of``: the node whose disk is the cause; empty if there is another cause. ``may_write_s``: 0 if its loop has
    ended, and has given up what no broker had; else the seconds after which its lease is over."""

    actor_id: str
    error: str
    response: UncaughtExceptionResponse = UncaughtExceptionResponse.SHUTDOWN_CLIENT
    disk_of: str = ""
    may_write_s: float = 0.0


@dataclass(frozen=True)
class ApplicationFailed:
    """Something that all actors depend on failed permanently."""

    error: str


@dataclass(frozen=True)
class CommitRequested:
    """An actor asks to commit, or asks again because it has heard no answer."""

    request: CommitRequest


@dataclass(frozen=True)
class CommitSucceeded:
    """Kafka has the offsets of a CommitOffsets."""

    request: CommitRequest


@dataclass(frozen=True)
class CommitFailed:
    """Kafka did not take the offsets of a CommitOffsets, and the dispatcher has waited a little since. ``final``: it
    never will; ``error`` is what a user must know."""

    request: CommitRequest
    error: str
    final: bool = False


@dataclass(frozen=True)
class StopRequested:
    """A user wants the application to end."""


@dataclass(frozen=True)
class MoveTaskRequested:
    """A user wants the task on this actor. The request is ignored if it is refused: see ``move_refusal``. An earlier
    one for the task does not count any more."""

    task: TaskId
    to: str


@dataclass(frozen=True)
class RestartActorRequested:
    """A user wants another actor in the place of this one, which commits and ends. The request is ignored if it is
    refused: see ``restart_refusal``."""

    actor_id: str


@dataclass(frozen=True)
class Deploy:
    """A user wants another version of the program; ``generation`` is its number, above all before. When all tasks run
    it, it is watched for ``watch_s``: until then a failure of one of its actors brings the version before it back."""

    generation: int
    watch_s: float


@dataclass(frozen=True)
class TasksHeld:
    """From now on no task processes records, for this reason; None: they process again."""

    by: Hold | None


@dataclass(frozen=True)
class NoRoom:
    """Actors that start have waited for long, and no CPU is free. Repeated as long as that lasts."""


@dataclass(frozen=True)
class TimerFired:
    """A timer that the machine asked for has run out."""

    timer: Timer


Event = (
    GroupAssigned | GroupRebalances | ClusterResized | ActorsWanted | NodesDraining | TasksPlanned | ActorRecovered
    | ActorUp | ActorAssigned | ActorReported | ActorSilent | ActorStopped | ActorLost | ActorsUnaccounted
    | ProcessDied | ActorFenced | ActorFailed | ApplicationFailed | CommitRequested | CommitSucceeded | CommitFailed
    | StopRequested | MoveTaskRequested | RestartActorRequested | Deploy | TasksHeld | NoRoom | TimerFired
)  # fmt: skip

# ---- instructions ----


@dataclass(frozen=True)
class StartActor:
    """Create the actor; answer ActorUp, or ActorFailed or ActorLost. ``slot``: the number in its ``transactional.id``,
    which no other actor has. ``generation``: the version of the program that it runs. ``node``: the node it belongs on,
    if there is a CPU; empty: any. ``avoid``: the nodes on which it must not start."""

    actor_id: str
    slot: int = 0
    generation: int = 1
    node: str = ""
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AssignTasks:
    """Make these, and no others, the actor's tasks, and these its standbys; answer ActorAssigned once the other tasks
    are released.

    The task plan names what each of them reads; one that read something else before is closed and opened again."""

    actor_id: str
    epoch: int
    tasks: frozenset[TaskId]
    standbys: frozenset[TaskId] = frozenset()


@dataclass(frozen=True)
class StopActor:
    """Let the actor commit, close and end; answer ActorStopped (or ActorLost)."""

    actor_id: str


@dataclass(frozen=True)
class KillActor:
    """End the actor at once; the machine has forgotten it already, no answer is expected."""

    actor_id: str


@dataclass(frozen=True)
class FenceActor:
    """Ensure that an actor that is gone, or only seems to be, can write nothing any more; then answer ActorFenced.
    Exactly once: take its ``transactional.id``, the one of this slot. At least once: let ``may_write_s`` pass, or less
    if its ``node`` has ended."""

    actor_id: str
    slot: int
    may_write_s: float = 0.0
    node: str = ""


@dataclass(frozen=True)
class FindCause:
    """An actor of this version was lost on this node: answer ProcessDied if the node is still there, else nothing. An
    empty node is not known, and counts as there."""

    generation: int
    node: str


@dataclass(frozen=True)
class CommitOffsets:
    """Let Kafka commit for the actor; answer CommitSucceeded or CommitFailed."""

    request: CommitRequest


@dataclass(frozen=True)
class AcceptCommit:
    """Answer every call with this request: Kafka has the offsets. Exactly once: the actor may commit them itself, see
    :class:`~penstock.actors.commit_messages.CommitAnswer`."""

    request: CommitRequest
    group_metadata: bytes = b""


@dataclass(frozen=True)
class RefuseCommit:
    """Answer every call with this request: the offsets are not committed; ``reason`` is for the actor's log."""

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


@dataclass(frozen=True)
class SetRollout:
    """A roll-out begins, or has come further: keep it, for a coordinator that is restarted."""

    rollout: Rollout


@dataclass(frozen=True)
class SetWishes:
    """The placements that users want have changed: keep them, for a coordinator that is restarted."""

    wishes: Wishes


Instruction = (
    StartActor | AssignTasks | StopActor | KillActor | FenceActor | FindCause | CommitOffsets | AcceptCommit
    | RefuseCommit | SetTimer | SetState | SetRollout | SetWishes
)  # fmt: skip
