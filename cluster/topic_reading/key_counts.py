"""Counts the keys among the newest records of a topic: one that has most of them keeps one task busy. Blocks: runs in a
thread of its own."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from penstock.cluster.record_side import KEYS_OF_NEWEST, MOST_FREQUENT, KeyCount, KeyCounts
from penstock.cluster.topic_reading.kept_records import Kept
from penstock.cluster.topic_reading.newest import Newest
from penstock.cluster.topic_reading.peek import MOST_BYTES, MOST_S
from penstock.cluster.topic_reading.range_reads import Budget, RangeReads, offsets_of
from penstock.cluster.topic_reading.showing import DECODE_S, Decoder, clip
from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource
from penstock.common.errors import MissingTopicError
from penstock.common.records import RecordBatch


def counted_keys(
    source: TopicSource, serdes: PickledSerdes, topic: str, partition: int | None, budget: Budget | None = None
) -> KeyCounts:
    """Returns the keys of the newest records of ``topic``, or of one partition of it. Raises MissingTopicError if there
    is no such partition."""
    budget = budget or Budget(MOST_BYTES, MOST_S)
    with closing(source.clients.restore_consumer()) as consumer:
        ranges = offsets_of(source.clients, consumer, topic)
        if partition is not None:
            if partition not in ranges:
                raise MissingTopicError(f"topic {topic!r} has no partition {partition}: it has {len(ranges)}")
            ranges = {partition: ranges[partition]}
        newest = Newest(ranges, KEYS_OF_NEWEST, _key_of)
        reads = RangeReads(consumer, topic, budget)
        while (windows := newest.next_round()) and not budget.is_over:
            reads.read(windows, newest.take, newest.end_window)
    counts = Counter((record.key, record.partition) for record in newest.records())
    known = serdes.unpickled()
    serde, why = (None, known) if isinstance(known, str) else (known.key, None)
    decoder = Decoder(budget.clock() + DECODE_S, budget.clock)
    keys = tuple(
        KeyCount(decoder.show(serde, key, why), number, count)
        for (key, number), count in counts.most_common(MOST_FREQUENT)
    )
    looked = tuple(newest.looked())
    return KeyCounts(
        topic, serdes.use, counts.total(), len(counts), keys, looked, source.committed_only, budget.stopped
    )


def _key_of(batch: RecordBatch, index: int) -> Kept:
    key = clip(batch.keys[index])
    return Kept(batch.partition.partition, batch.offsets[index], batch.timestamps[index], key, None, [], 0)
