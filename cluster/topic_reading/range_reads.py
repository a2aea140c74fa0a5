"""Reads ranges of offsets of a topic with one consumer, within limits of bytes and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.cluster.topic_reading.showing import size_of_record
from penstock.common.errors import MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import RecordConsumer

_RECORDS = 1000
_POLL_S = 0.1
_PARTITIONS_AT_ONCE = 16
"""The client fetches ahead for each assigned partition, so they bound its memory, as ``fetch.max.bytes`` does."""


@dataclass
class Budget:
    """The bytes and seconds that one read may take, and what it has taken. ``stopped``: the limit that is reached."""

    most_bytes: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    bytes: int = 0
    records: int = 0
    stopped: str | None = None
    until_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.until_s = self.clock() + self.seconds

    def take(self, batch: RecordBatch) -> None:
        """Count the records of ``batch``."""
        headers = batch.headers or [None] * len(batch)
        self.records += len(batch)
        self.bytes += sum(map(size_of_record, batch.keys, batch.values, headers))

    @property
    def is_over(self) -> bool:
        """True if no more may be read."""
        if self.stopped is None:
            if self.clock() > self.until_s:
                self.stopped = f"{self.seconds:g} seconds"
            elif self.bytes > self.most_bytes:
                self.stopped = f"{self.most_bytes >> 20} MiB read"
        return self.stopped is not None


def offsets_of(clients: KafkaClients, consumer: RecordConsumer, topic: str) -> dict[int, OffsetRange]:
    """Returns the offsets that a topic has now, by partition: for a reader of committed records, up to the first open
    transaction. Raises MissingTopicError, and BrokerUnreachableError within 10 s."""
    count = clients.admin().topics().get(topic)
    if count is None:
        raise MissingTopicError(
            f"topic {topic!r} does not exist in Kafka, or the application may not describe it (ACLs)"
        )
    partitions = [TopicPartition(topic, number) for number in range(count)]
    begins, ends = consumer.fetch_beginning_offsets(partitions), consumer.fetch_end_offsets(partitions)
    return {each.partition: OffsetRange(begins[each], ends[each]) for each in partitions}


class RangeReads:
    """Reads ranges of ``topic`` by ``consumer``."""

    def __init__(self, consumer: RecordConsumer, topic: str, budget: Budget) -> None:
        self._consumer = consumer
        self._topic = topic
        self._budget = budget

    def read(
        self, ranges: Mapping[int, OffsetRange], take: Callable[[RecordBatch], None], ended: Callable[[int], None]
    ) -> None:
        """Read ``ranges``, and call ``take`` with the records of each, in order, and ``ended`` after the last one.
        Returns early when the budget is used up: then ``ended`` is not called for the others."""
        wanted = [(TopicPartition(self._topic, number), each) for number, each in ranges.items()]
        for at in range(0, len(wanted), _PARTITIONS_AT_ONCE):
            if at and self._budget.is_over:
                return
            for batch in self._some(dict(wanted[at : at + _PARTITIONS_AT_ONCE]), ended):
                take(batch)

    def _some(self, left: dict[TopicPartition, OffsetRange], ended: Callable[[int], None]) -> Iterator[RecordBatch]:
        consumer = self._consumer
        consumer.assign({})  # those that stay would keep their positions
        consumer.assign({at: each.begin for at, each in left.items()})
        while left and not self._budget.is_over:
            for batch in consumer.poll(_RECORDS, _POLL_S):
                if batch.partition in left and len(found := batch.before(left[batch.partition].end)):
                    self._budget.take(found)
                    yield found
            over = self._lost_for_good(left) | {at for at, each in left.items() if consumer.position(at) >= each.end}
            for at in over:
                del left[at]
                ended(at.partition)
            if over:
                consumer.assign({at: each.begin for at, each in left.items()})

    def _lost_for_good(self, left: Mapping[TopicPartition, OffsetRange]) -> set[TopicPartition]:
        """Continue behind records that retention has deleted since the ranges were chosen. Returns the partitions that
        have nothing more in their range."""
        over = set()
        for at, offset in self._consumer.lost_positions().items():
            if at in left:
                first = self._consumer.fetch_beginning_offsets([at])[at]
                if offset < first < left[at].end:
                    self._consumer.seek(at, first)
                else:  # all of them are deleted; or the topic was created again, or cut
                    over.add(at)
        return over
