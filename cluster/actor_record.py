"""The coordinator's record of one stream actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.cluster.events import AcceptCommit, RefuseCommit
from penstock.common.ids import Sources, TaskId


class Phase(Enum):
    """The life of an actor, see :mod:`penstock.cluster.coordinator.coordinator`."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    FENCING = "fencing"


@dataclass
class ActorRecord:
    """The state of a stream actor, as far as it is known."""

    phase: Phase
    slot: int = 0
    """The number in its ``transactional.id``."""
    node: str = ""
    """The id of its Ray node."""
    epoch: int = 0
    """The epoch of the assignment that was sent last."""
    confirmed: int = 0
    """The last epoch that it confirmed."""
    issued: Sources = field(default_factory=dict)
    """The tasks that were sent last, with what each reads."""
    held: frozenset[TaskId] = frozenset()
    """Tasks that it may still work on: before an assignment is confirmed, more than were sent."""
    running: frozenset[TaskId] = frozenset()
    standbys: frozenset[TaskId] = frozenset()
    """The standbys that were sent last."""
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    """Number of offsets that each standby lacks, as last reported."""
    unsure: bool = False
    """True if it was found alive after a restart of the coordinator: it may have tasks that it did not report yet."""
    silent: bool = False
    """True if its process gives no sign of life."""
    worked: bool = False
    """True if its tasks have run."""
    avoids: frozenset[str] = frozenset()
    """The ids of the nodes on which Ray must not start it."""
    outdated: bool = False
    """True if it must be assigned even the same again: it closed tasks when a commit was refused, or is suspended."""
    last_commit: int = -1
    """The number of its last commit."""
    answer: AcceptCommit | RefuseCommit | None = None
    """Outcome of that commit; None while Kafka has it."""
    generation: int = 1
    """The version of the program that it runs."""
    wanted_node: str = ""
    """The node that it was to start on."""
    first_epoch: int = 0
    """Its first epoch. A request under an earlier one is another actor's, of this name under an earlier coordinator."""

    @property
    def settled(self) -> bool:
        """True if it has confirmed its last assignment."""
        return self.phase is Phase.UP and self.epoch == self.confirmed and not self.unsure
