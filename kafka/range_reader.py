"""Reads ranges of Kafka's partitions with one consumer, each partition as a stream of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges
from penstock.common.records import RecordBatch
from penstock.kafka.contracts import RecordConsumer

_RECORDS_PER_POLL = 10_000
_POLL_S = 0.1
_PATIENCE_S = 120.0
"""Seconds without records after which a reader gives up: longer than a transaction of an ingest may be open."""
_MOST_WAITING = 2 * _RECORDS_PER_POLL
"""Records of a partition that wait to be taken before it is paused."""
_MOST_BYTES = 32 << 20
"""Bytes of keys and values that wait before it is paused, too."""


class KafkaReader:
    """The records of ``ranges``, read by ``consumer``, which it closes. For one thread."""

    def __init__(self, consumer: RecordConsumer, ranges: Ranges) -> None:
        self._consumer = consumer
        self._partitions = {at: _Partition(offsets) for at, offsets in ranges.items() if offsets}
        consumer.assign({at: each.offsets.begin for at, each in self._partitions.items()})

    def batches(self, partition: TopicPartition) -> Iterator[RecordBatch]:
        """Yields the records of one partition in order. Raises BrokerUnreachableError if nothing comes for two minutes,
        and StreamsError if Kafka has deleted records of the range."""
        mine = self._partitions.get(partition)
        while mine is not None:
            if mine.waiting:
                batch = mine.waiting.popleft()
                mine.count -= len(batch)
                yield batch
            elif mine.ended:
                return
            else:
                self._fill(partition, mine)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _fill(self, partition: TopicPartition, mine: _Partition) -> None:
        """Poll until ``partition`` has records, or is at the end of its range."""
        if mine.paused:
            mine.paused = False
            self._consumer.resume([partition])
        deadline = time.monotonic() + _PATIENCE_S
        while not mine.waiting and not mine.ended:
            for batch in self._consumer.poll(_RECORDS_PER_POLL, _POLL_S):
                deadline = time.monotonic() + _PATIENCE_S
                self._take(batch)
            self._refuse_lost()
            if self._consumer.position(partition) >= mine.offsets.end:
                self._end(partition, mine)
            elif time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"partition {partition.partition} of {partition.topic!r} cannot be read from offset "
                    f"{self._consumer.position(partition)} on: nothing has come for {_PATIENCE_S:.0f} s"
                )

    def _take(self, batch: RecordBatch) -> None:
        at = batch.partition
        owner = self._partitions[at]
        if owner.ended:
            return
        end = owner.offsets.end
        if batch.offsets[-1] >= end:
            batch = batch.before(end)
            self._end(at, owner)
        if len(batch):
            owner.waiting.append(batch)
            owner.count += len(batch)
        if owner.is_full() and not owner.ended and not owner.paused:
            owner.paused = True
            self._consumer.pause([at])

    def _end(self, at: TopicPartition, owner: _Partition) -> None:
        if not owner.ended:
            owner.ended = True
            self._consumer.pause([at])

    def _refuse_lost(self) -> None:
        for at, position in self._consumer.lost_positions().items():
            if not self._partitions[at].ended:
                raise StreamsError(
                    f"partition {at.partition} of {at.topic!r} has no records at offset {position} any more: Kafka has "
                    "deleted them while they were read. Give the topic a longer retention.ms, and run it again"
                )


def has_records(consumer: RecordConsumer, partition: TopicPartition, offsets: OffsetRange) -> bool:
    """Returns True if there are records in ``offsets``. Offsets alone do not show that: transactions may have left only
    markers, and records that were aborted. Leaves ``consumer`` without partitions. Raises like
    :meth:`KafkaReader.batches`."""
    if not offsets:
        return False
    reader = KafkaReader(consumer, {partition: offsets})
    try:
        return next(reader.batches(partition), None) is not None
    finally:
        consumer.resume([partition])
        consumer.assign({})


class _Partition:
    def __init__(self, offsets: OffsetRange) -> None:
        self.offsets = offsets
        self.waiting: deque[RecordBatch] = deque()
        self.count = 0
        self.ended = False
        self.paused = False

    def is_full(self) -> bool:
        return self.count > _MOST_WAITING or sum(batch.size for batch in self.waiting) > _MOST_BYTES
