"""A stream actor's request to commit, and the coordinator's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.common.ids import TopicPartition


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
