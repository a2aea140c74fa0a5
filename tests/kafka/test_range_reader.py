"""Reading ranges of several partitions with one consumer: what waits while another partition is read is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch
from penstock.kafka.range_reader import KafkaReader

FAST, SLOW = TopicPartition("fast", 0), TopicPartition("slow", 0)
LARGE, COUNT, MOST = 5_000_000, 100, 40_000_000


class Consumer:
    """Gives a large record of ``FAST`` with each call; the only one of ``SLOW`` when no more of those come."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.given = 0

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)

    def poll(self, max_records: int, timeout_s: float) -> list[RecordBatch]:
        at = SLOW if FAST in self.paused or self.positions[FAST] == COUNT else FAST
        if at in self.paused:
            return []
        offset, size = self.positions[at], LARGE if at == FAST else 1
        self.positions[at] += 1
        self.given += size
        return [RecordBatch(at, [b"k"], [b"v"], [0], [offset], None, size)]

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def lost_positions(self) -> dict[TopicPartition, int]:
        return {}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def close(self) -> None:
        """Nothing is open."""


def test_large_records_of_a_partition_that_nobody_takes_do_not_fill_the_memory() -> None:
    consumer: Any = Consumer()
    with closing(KafkaReader(consumer, {FAST: OffsetRange(0, COUNT), SLOW: OffsetRange(0, 1)})) as reader:
        assert sum(len(batch) for batch in reader.batches(SLOW)) == 1
        assert consumer.given <= MOST
        assert sum(len(batch) for batch in reader.batches(FAST)) == COUNT
