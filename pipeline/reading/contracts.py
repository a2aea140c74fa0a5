"""The contract of a source of history: topics of Kafka, an archive of them, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Protocol

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import Ranges
from penstock.common.records import RecordBatch


class OpenHistory(Protocol):
    """Ranges of partitions that are being read. For one thread."""

    def batches(self, partition: TopicPartition) -> Iterator[RecordBatch]:
        """Yields the records of one partition within its range, in the order of their offsets. Several partitions may
        be read in turns. Raises StreamsError if part of the range is not there."""

    def close(self) -> None:
        """Close what is open. Idempotent."""


class HistorySource(Protocol):
    """Holds records of topics by their offsets in Kafka. Picklable."""

    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        """Returns the offsets of each partition that can be read now, and starts no Spark. Offsets within the range may
        be without a record: markers of transactions, aborted records, and records that compaction has removed.

        Raises MissingTopicError for a topic that the source does not have.
        """

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Returns the offset of each partition's first record of that time (ms) or later; its end if there is none."""

    def require(self, ranges: Ranges) -> None:
        """Raise if it is known that part of ``ranges`` cannot be read."""

    def open(self, ranges: Ranges) -> OpenHistory:
        """Begin to read ``ranges``, in an executor of Spark."""


def every_record(history: HistorySource, ranges: Ranges) -> Iterator[RecordBatch]:
    """Yields the records of ``ranges``, one partition after the other."""
    with closing(history.open(ranges)) as opened:
        for at in sorted(ranges):
            if ranges[at]:
                yield from opened.batches(at)
