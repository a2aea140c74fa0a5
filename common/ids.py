"""Identifiers of tasks and of partitions of topics."""

from __future__ import annotations

from collections.abc import Mapping
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
        """Returns the id that ``str`` has written as ``text``. Raises ValueError for any other text."""
        subtopology, _, partition = text.partition("_")
        try:
            found = cls(int(subtopology), int(partition))
        except ValueError:
            found = cls(-1, -1)
        if str(found) != text or min(found) < 0:  # int() also reads signs, blanks and 1_000
            raise ValueError(f"not a task id, such as 0_1: {text!r}")
        return found


class CommittedOffset(NamedTuple):
    """A committed offset (the next record to read) with its metadata."""

    offset: int
    metadata: str = ""


Offsets = Mapping[TopicPartition, CommittedOffset]
"""The offset that is committed, or to be committed, of each source partition."""

Sources = Mapping[TaskId, frozenset[TopicPartition]]
"""The partitions that each task reads."""
