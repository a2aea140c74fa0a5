"""The common part of an active task and a standby: stores in a directory, and their changelogs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any

from penstock.actors.task_host.task_directory import TaskDirectory
from penstock.common.ids import TopicPartition
from penstock.tasks.state_manager import StateManager

Serialize = Callable[[Any], bytes]


class StoredTask(ABC):
    """The stores of one task on this actor. ``sources``: the partitions that the task reads."""

    def __init__(
        self, state_manager: StateManager, directory: TaskDirectory, sources: frozenset[TopicPartition]
    ) -> None:
        program, partition = state_manager.program, state_manager.task_id.partition
        self.state_manager = state_manager
        self.id = state_manager.task_id
        self.directory = directory
        resets = {TopicPartition(topic, partition): source.offset_reset for topic, source in program.sources.items()}
        # Merged topics may differ in their number of partitions: the task reads those that have its partition.
        self.missing = frozenset(resets.keys() - sources)
        self.resets = {tp: reset for tp, reset in resets.items() if tp not in self.missing}
        self.sources = tuple(self.resets)
        self.serializers: Mapping[str, Serialize] = {
            name: store.value_serde.serialize for name, store in program.stores.items() if store.value_serde is not None
        }
        logs = {store: TopicPartition(log.topic, partition) for store, log in program.changelogs.items()}
        # The source topic of a table may have fewer partitions than another topic: then there is nothing to restore.
        self.changelogs = {store: tp for store, tp in logs.items() if tp not in self.missing}
        self.topic_ids: Mapping[str, str] = {}
        """The ids of its topics when its restore began, if there are checkpoints."""
        self.source_changelogs = {store for store, log in program.changelogs.items() if log.is_source_topic}

    @property
    def reads(self) -> frozenset[TopicPartition]:
        """The partitions of its sources."""
        return frozenset(self.sources)

    @property
    @abstractmethod
    def limits(self) -> Mapping[TopicPartition, int]:
        """The offsets up to which its changelogs are restored, for those that are not restored to their ends."""

    def topics_of(self, store: str) -> Collection[str]:
        """Returns the topics that the task reads: ``store`` may have seen records of all of them."""
        return {tp.topic for tp in self.sources}
