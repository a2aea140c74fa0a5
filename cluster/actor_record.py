"""The coordinator's record of one stream actor."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.cluster.events import AcceptCommit, RefuseCommit
from penstock.common.ids import Sources, TaskId


class Phase(Enum):
    """The life of an actor, see :mod:`penstock.cluster.coordinator`."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    FENCING = "fencing"


@dataclass
class ActorRecord:
    """``issued`` was sent last, under ``epoch``, with what each task reads; ``held`` is what the actor may still work
    on; ``confirmed`` is the last epoch it confirmed. ``slot`` is the number in its ``transactional.id``. ``unsure``:
    found alive after a restart, may have taken tasks it did not yet report. ``worked``: its tasks have run.
    ``refused``: a commit of it was refused, so it has closed tasks that it must be assigned again. ``answer`` is what
    became of its last commit, whose number is ``last_commit``; None while Kafka has it. ``first_epoch``: who asks under
    an epoch below is another, that had its name under an earlier coordinator."""

    phase: Phase
    slot: int = 0
    epoch: int = 0
    confirmed: int = 0
    issued: Sources = field(default_factory=dict)
    held: frozenset[TaskId] = frozenset()
    running: frozenset[TaskId] = frozenset()
    unsure: bool = False
    worked: bool = False
    refused: bool = False
    last_commit: int = -1
    first_epoch: int = 0
    answer: AcceptCommit | RefuseCommit | None = None

    @property
    def settled(self) -> bool:
        """Whether it has confirmed its last assignment."""
        return self.phase is Phase.UP and self.epoch == self.confirmed and not self.unsure
