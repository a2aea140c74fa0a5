"""Reads the letters of a dead letter topic up to the ends that it has now, and reports the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass

from penstock.cluster.dead_letters.letters import Letter, letters_of
from penstock.cluster.topic_reading.deleted_records import skip_deleted
from penstock.common.errors import BrokerUnreachableError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange, Ranges, size_of
from penstock.common.records import RecordBatch
from penstock.common.shown import similar_to
from penstock.common.step_progress import RECORDS, Progress, StepProgress
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import RecordConsumer

_RECORDS = 1000
_POLL_S = 0.1
_PATIENCE_S = 60.0
"""Seconds without a record or an answer after which a command gives up."""


class Counter:
    """Reports how many of ``total`` records are done, with their rate."""

    def __init__(self, step: str, total: int, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._step = step
        self._total = total
        self._progress = progress
        self._clock = clock
        self._began_s = clock()
        progress(StepProgress(step, 0, total, RECORDS))

    def report(self, done: int) -> None:
        """Report that ``done`` records are done in all."""
        passed = self._clock() - self._began_s
        rate = done / passed if passed > 0 else None
        left = (self._total - done) / rate if rate else None
        self._progress(StepProgress(self._step, done, self._total, RECORDS, rate, left))


def _told_nobody(sentence: str) -> None:
    """Drops a sentence."""


@dataclass(frozen=True)
class Letters:
    """The letters at ``ranges`` of a dead letter topic. ``clients`` must read committed records. ``tell`` gets a
    sentence about letters that are deleted before they are read."""

    clients: KafkaClients
    ranges: Ranges
    tell: Callable[[str], None] = _told_nobody

    def read(self, step: str, progress: Progress) -> Generator[Letter]:
        """Yields the letters, those of one partition in order. Raises BrokerUnreachableError if none comes for a
        minute."""
        for batch in self.batches(step, progress):
            yield from letters_of(batch)

    def batches(self, step: str, progress: Progress) -> Generator[RecordBatch]:
        """Like :meth:`read`, in batches."""
        counter = Counter(step, size_of(self.ranges), progress)
        with closing(self.clients.consumer()) as consumer:
            left = {at: offsets for at, offsets in self.ranges.items() if offsets}
            consumer.assign({at: offsets.begin for at, offsets in left.items()})
            heard_s = time.monotonic()
            while left:
                found = consumer.poll(_RECORDS, _POLL_S)
                for batch in found:
                    if batch.partition in left:
                        yield batch.before(left[batch.partition].end)
                for at, offset in consumer.lost_positions().items():
                    self.tell(skip_deleted(consumer, at, offset))
                remaining = {at: each for at, each in left.items() if consumer.position(at) < each.end}
                if found or len(remaining) < len(left):
                    heard_s = time.monotonic()  # the caller may have taken long with the last ones
                elif time.monotonic() - heard_s > _PATIENCE_S:
                    raise BrokerUnreachableError(_silence(remaining))
                if len(remaining) < len(left):
                    consumer.assign({at: each.begin for at, each in remaining.items()})
                left = remaining
                counter.report(self._done(consumer, left))

    def _done(self, consumer: RecordConsumer, left: Mapping[TopicPartition, OffsetRange]) -> int:
        behind = sum(each.end - max(each.begin, consumer.position(at)) for at, each in left.items())
        return size_of(self.ranges) - behind


def _silence(left: Ranges) -> str:
    at, offsets = next(iter(left.items()))
    return (
        f"partition {at.partition} of topic {at.topic!r} cannot be read up to offset {offsets.end}: nothing has come "
        f"for {_PATIENCE_S:.0f} s. Is its broker up?"
    )


def partitions_of(clients: KafkaClients, topic: str) -> list[TopicPartition]:
    """Returns the partitions of a topic. Raises MissingTopicError."""
    counts = clients.admin().topics()
    if topic not in counts:
        raise MissingTopicError(
            f"there is no topic {topic!r}{similar_to(topic, counts)}: 'penstock topic list' shows all topics"
        )
    return [TopicPartition(topic, number) for number in range(counts[topic])]


def all_letters(clients: KafkaClients, topic: str, tell: Callable[[str], None] = _told_nobody) -> Letters:
    """Returns the letters that a topic has now. Raises MissingTopicError."""
    partitions = partitions_of(clients, topic)
    with closing(clients.consumer()) as consumer:
        begins = consumer.fetch_beginning_offsets(partitions)
    ends = clients.admin().end_offsets(partitions)
    return Letters(clients, {at: OffsetRange(begins[at], ends[at]) for at in partitions}, tell)
