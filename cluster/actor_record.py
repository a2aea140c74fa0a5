"""The coordinator's record of one stream actor."""

from __future__ import annotations

from collections.abc import Mapping
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
    """``issued`` was sent last, under ``epoch``, with what each task reads, and ``standbys`` with it; ``held`` is what
    the actor may still work on; ``confirmed`` is the last epoch it confirmed. ``lags``: how many offsets each standby
    lacks, as last reported. ``slot`` is the number in its ``transactional.id``, ``node`` the id of its Ray node.
    ``unsure``: found alive after a restart, may have taken tasks it did not yet report. ``worked``: its tasks have run.
    ``outdated``: it must be assigned even the same again, as it has closed tasks when a commit was refused, or waits.
    ``answer`` is what became of its last commit, whose number is ``last_commit``; None while Kafka has it.
    ``first_epoch``: who asks under an epoch below is another, that had its name under an earlier coordinator."""

    phase: Phase
    slot: int = 0
    node: str = ""
    epoch: int = 0
    confirmed: int = 0
    issued: Sources = field(default_factory=dict)
    held: frozenset[TaskId] = frozenset()
    running: frozenset[TaskId] = frozenset()
    standbys: frozenset[TaskId] = frozenset()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    unsure: bool = False
    worked: bool = False
    outdated: bool = False
    last_commit: int = -1
    first_epoch: int = 0
    answer: AcceptCommit | RefuseCommit | None = None

    @property
    def settled(self) -> bool:
        """Whether it has confirmed its last assignment."""
        return self.phase is Phase.UP and self.epoch == self.confirmed and not self.unsure
