"""A pass over a sub-topology of a cycle: the topics of the cycle, and the place of a record in their order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.common.ids import TopicPartition

_PARTITION_BITS, _INDEX_BITS = 16, 37
MOST_TOPICS = 1 << 63 - _PARTITION_BITS - _INDEX_BITS


@dataclass(frozen=True)
class CyclePass:
    """Pass ``number`` of ``passes`` over the sub-topologies of a cycle.

    ``outside``: the topics that the sub-topologies of the cycle read from outside, in order. ``inner``: the repartition
    topics by which they write to each other, in the order in which passes write them: each after those whose records
    lead to its own. ``writes``: those of them that this pass writes. ``partial``: it only serves to write these, and a
    later pass of the same sub-topology hands over its results and state.
    """

    number: int
    passes: int
    outside: tuple[str, ...]
    inner: tuple[str, ...]
    writes: frozenset[str]
    partial: bool

    @property
    def muted(self) -> frozenset[str]:
        """The inner topics whose records an earlier pass has written."""
        return frozenset(self.inner) - self.writes

    def written_before(self, topics: Collection[str]) -> tuple[str, ...]:
        """Returns those of ``topics`` that earlier passes wrote, in the order in which they wrote them. Records with
        the same place come in this order of topics, since later ones may have been made of earlier ones."""
        return tuple(topic for topic in self.inner if topic in topics)

    def place(self, partition: TopicPartition) -> int:
        """Returns the place of the first record of a partition from outside, among records that are due at the same
        time. The next ones follow it one by one."""
        rank = self.outside.index(partition.topic)
        return (rank << _PARTITION_BITS | partition.partition) << _INDEX_BITS
