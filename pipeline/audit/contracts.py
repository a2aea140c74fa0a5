"""The contract between an audit and the stores that it looks at: of the live application, or of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.common.ids import TaskId, TopicPartition
from penstock.state.key_sample import KeySample
from penstock.state.range_digests import RangeDigest, Row

StoreOfTask = tuple[TaskId, str]
"""A task, and the name of one of its stores."""


class LiveStores(Protocol):
    """The stores of an application at one moment, or of one checkpoint of each task, and the input offsets that they
    stand for. They stay as they are until :meth:`close`. All methods raise StreamsError if they cannot be read any
    more."""

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """The offsets up to which the tasks have processed their sources. Spark computes all records before them."""

    @property
    def held_s(self) -> float:
        """Seconds for which some tasks took no records, until the moment was there."""

    @property
    def layouts(self) -> Mapping[TaskId, Mapping[str, str]]:
        """The forms of the rows of each store that can be compared, by task."""

    def why_absent(self, task_ids: Sequence[TaskId], store: str) -> str:
        """Returns the reason for which a store of these tasks is not in :attr:`layouts`."""

    def digests(self, sample: KeySample | None) -> Mapping[StoreOfTask, Sequence[RangeDigest]]:
        """Returns the digests of all stores: of all rows that an audit compares, or of those in ``sample``."""

    def rows(self, task: TaskId, store: str, begin: bytes, end: bytes | None, sample: KeySample | None) -> list[Row]:
        """Returns the rows of one range: from ``begin`` up to but not including ``end``."""

    def close(self) -> None:
        """Remove what was kept for the audit. Idempotent."""
