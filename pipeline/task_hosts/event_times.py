"""The times by which a task takes the records of its partitions, where an extractor of the user's decides them.

A task orders records by what extractors return. So the code that merges the partitions of a task must know these times
already where a partition is read. Extractors are pure functions: the task calls them again.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.errors import RetriableError
from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import NO_HEADERS, Record, RecordBatch, RecordMetadata
from penstock.common.time import whole_ms
from penstock.tasks.offsets import decode_partition_time
from penstock.tasks.program import SourceTopic, TaskProgram

_DUE_AT_ONCE = -1


class EventTimes:
    """The times of one partition, batch by batch, from what the group has ``committed`` on."""

    def __init__(
        self, program: TaskProgram, partition: TopicPartition, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        source = program.sources[partition.topic]
        self._source = None if type(source.extractor) is FailOnInvalidTimestamp else source
        before = committed.get(partition)
        self._partition_time = -1 if before is None else decode_partition_time(before.metadata)

    def of(self, batch: RecordBatch) -> list[int]:
        """Returns the time of each record; −1 for one that the task drops or refuses: it is due after the record before
        it, whatever the other partitions have."""
        if self._source is None:
            return batch.timestamps
        headers = batch.headers or [None] * len(batch)
        times = []
        for key, value, own, offset, each in zip(
            batch.keys, batch.values, batch.timestamps, batch.offsets, headers, strict=True
        ):
            record = Record(key, value, max(own, 0), each or NO_HEADERS)
            time = self._extracted(self._source, record, own, RecordMetadata(*batch.partition, offset))
            self._partition_time = max(self._partition_time, time)
            times.append(time)
        return times

    def _extracted(
        self, source: SourceTopic, raw: Record[bytes | None, bytes | None], own: int, at: RecordMetadata
    ) -> int:
        try:
            key = None if raw.key is None else source.key_serde.deserialize(raw.key)
            value = None if raw.value is None else source.value_serde.deserialize(raw.value)
            record = Record(key, value, raw.timestamp, raw.headers)
            return max(whole_ms(source.extractor(record, own, self._partition_time, at), "its result"), _DUE_AT_ONCE)
        except RetriableError:  # of a schema registry; with a time of no record, the order would be another one
            raise
        except Exception:  # anything of a user's function or serde: the task reports it when the record's turn comes
            return _DUE_AT_ONCE
