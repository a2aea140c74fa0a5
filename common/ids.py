"""Named identifiers: what a task, a partition of a topic, or a sub-topology is called."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """``<sub-topology>_<partition>``: the unit of work that Kafka Streams calls a task."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read what ``str`` writes. Raises ValueError for anything else."""
        subtopology, _, partition = text.partition("_")
        return cls(int(subtopology), int(partition))


class CommittedOffset(NamedTuple):
    """A committed offset (the next record to read) with the text that was committed beside it."""

    offset: int
    metadata: str = ""
