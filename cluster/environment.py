"""The dispatcher's view of Ray and Kafka: two protocols, and the errors of their calls.

``stream_actor_handle.py`` and ``ray_environment.py`` implement them by Ray and Kafka; a simulation that loses, delays
and repeats messages does in ``tests/cluster/simulated_actor.py`` and ``simulated_application.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Order
from penstock.actors.status import ActorEnd, ActorStatus
from penstock.cluster.events import Event, Instruction
from penstock.cluster.rollout import Rollout
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import Wishes
from penstock.common.errors import StreamsError
from penstock.common.ids import Offsets


class ActorLostError(StreamsError):
    """The actor's process has ended, or seems to have. ``has_ended``: its node has reported the end of the process, so
    it writes nothing any more."""

    def __init__(self, message: str, *, has_ended: bool = False) -> None:
        super().__init__(message)
        self.has_ended = has_ended


class ActorEndedError(StreamsError):
    """The process lives, but its stream loop has ended: ``wait`` returns the reason."""


class ActorFailedError(StreamsError):
    """The actor lives but reports that it cannot do its work; the text is for users."""


class ActorNameTakenError(StreamsError):
    """Another actor still has the name."""


class CommitRefusedError(StreamsError):
    """Kafka will never take these offsets: the membership in the group is lost permanently, or a user must act."""


class ActorSilentError(StreamsError):
    """The actor has not answered in time."""


class NodeAnswer(Enum):
    """The answer of a Ray node to a connection."""

    ANSWERS = "it is there"
    REFUSES = "the connection is refused: its raylet has ended, or a firewall sends resets in its name"
    GONE = "Ray itself calls it dead"
    ENDED = "Ray itself calls it dead, and its machine refuses the connection"
    UNREACHABLE = "no answer came: its machine is lost, or the network between is"


RELEASE_S = 120.0
"""Time after which an actor that works on an assignment, and waits neither for a broker nor for the coordinator, is
ended. One that must stop is ended after the same time, whatever it waits for."""


class OrderReceiver(Protocol):
    """The part of :class:`ActorHandle` that :mod:`~penstock.cluster.coordinator_shell.pausing` needs."""

    actor_id: str

    async def tell(self, order: Order) -> bool:
        """Returns when the order is carried out; True if the last commit is in doubt. Raises ActorSilentError, or
        another StreamsError if the actor takes no orders any more."""


class ActorHandle(OrderReceiver, Protocol):
    """One stream actor, from outside. Calls raise ActorLostError, ActorEndedError or ActorFailedError; ``tell`` raises
    ActorSilentError, too."""

    ray_handle: Any
    """The handle to which readers send their queries."""

    async def start(self, slot: int) -> str:
        """Returns the id of the actor's Ray node when the actor is up, however long it waits for a CPU."""

    async def insist(self, order: Order) -> bool:
        """Like ``tell``, however long the actor takes: it may wait for a broker for hours. The caller cancels the call
        when it does not want to wait any longer."""

    async def wait(self) -> ActorEnd:
        """Waits for the end of the actor's loop; returns the reason."""

    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        """Returns the actor's own view; None when it does not answer now."""

    async def heartbeat(self, question_id: QuestionId) -> bool:
        """Returns True if its process answers, however long its thread works on a record."""

    def kill(self) -> None:
        """End the process at once. Idempotent."""


class Environment(Protocol):
    """The operations of Ray and Kafka that the dispatcher needs."""

    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        """Returns an actor that starts when it has a CPU, and runs this version of the program. It belongs on ``node``,
        if there is a CPU; empty: anywhere, except on the nodes ``avoid``. Raises ActorNameTakenError."""

    async def commit(self, offsets: Offsets) -> None:
        """Commit to the group. Raises CommitRefusedError for what is final, another StreamsError for what passes."""

    async def fence(self, slot: int) -> None:
        """Take the ``transactional.id`` of the actor in ``slot``. Raises StreamsError for what passes."""

    async def node(self, node_id: str) -> NodeAnswer:
        """Connect to a node; takes seconds at most."""

    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None:
        """Take an event of the state machine, with its instructions, before these are carried out."""

    def reported(self, status: ActorStatus) -> None:
        """Take the status that an actor has reported."""

    def entered(self, state: ApplicationState, error: str | None) -> None:
        """Take the new state of the application."""

    def rolled_out(self, rollout: Rollout) -> None:
        """Take a roll-out that has begun, or has come further."""

    def wished(self, wishes: Wishes) -> None:
        """Take the placements that users want now."""
