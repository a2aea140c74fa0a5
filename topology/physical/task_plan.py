"""From partitions to tasks: the tasks of an application, what each reads, and those that an assignment owns."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.common.ids import TaskId, TopicPartition


@dataclass(frozen=True)
class SubtopologyTasks:
    """The tasks of one sub-topology. ``topics`` maps each topic it reads (name in Kafka) to its partition count.

    ``logged``: it has stores with changelogs, of which there may be standbys elsewhere; ``in_memory``: one of those is
    not on disk."""

    id: int
    topics: Mapping[str, int]
    stateful: bool = False
    logged: bool = False
    in_memory: bool = False

    @property
    def tasks(self) -> int:
        """Number of tasks: one for each partition of the topic that has most."""
        return max(self.topics.values())

    @property
    def widest_topic(self) -> str:
        """The first topic that has most partitions: its producer's partitioning decides which task has a key."""
        return max(self.topics, key=self.topics.__getitem__)


@dataclass(frozen=True)
class TaskPlan:
    """All tasks of an application. A value: it changes only when a topic's number of partitions does."""

    subtopologies: tuple[SubtopologyTasks, ...]
    repartition_topics: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def partitions(self) -> dict[TaskId, frozenset[TopicPartition]]:
        """The partitions that each task reads: partition ``p`` of every topic of its sub-topology that has one."""
        return {
            TaskId(sub.id, number): frozenset(
                TopicPartition(topic, number) for topic, count in sub.topics.items() if number < count
            )
            for sub in self.subtopologies
            for number in range(sub.tasks)
        }

    @cached_property
    def reads(self) -> frozenset[TopicPartition]:
        """Every partition that some task reads."""
        return frozenset(partition for partitions in self.partitions.values() for partition in partitions)

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that some task reads: the group subscribes to these."""
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.topics}))

    @cached_property
    def stateful(self) -> frozenset[int]:
        """The sub-topologies that have stores."""
        return frozenset(sub.id for sub in self.subtopologies if sub.stateful)

    @cached_property
    def logged(self) -> frozenset[int]:
        """The sub-topologies that have stores with changelogs."""
        return frozenset(sub.id for sub in self.subtopologies if sub.logged)

    @cached_property
    def in_memory(self) -> frozenset[int]:
        """The sub-topologies that have stores with changelogs, but not on disk."""
        return frozenset(sub.id for sub in self.subtopologies if sub.in_memory)

    def without(self, topics: Set[str]) -> TaskPlan:
        """Returns the plan without these topics. Tasks that have nothing left to read are left out; the others keep
        their numbers, and with them their state."""
        left = (
            replace(sub, topics={topic: count for topic, count in sub.topics.items() if topic not in topics})
            for sub in self.subtopologies
        )
        return replace(self, subtopologies=tuple(sub for sub in left if sub.topics))

    def owned(self, assignment: Set[TopicPartition]) -> frozenset[TaskId]:
        """Returns the tasks all of whose partitions are in ``assignment``."""
        return frozenset(task for task, partitions in self.partitions.items() if partitions <= assignment)
