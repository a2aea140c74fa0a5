"""Reads the records of a key in a topic, from the end backwards. Blocks: runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from penstock.cluster.record_side import KeyRecords, KeyScan
from penstock.cluster.topic_reading.backwards import Backwards, start_of, within
from penstock.cluster.topic_reading.kept_records import shown_record
from penstock.cluster.topic_reading.keys import KeyForm
from penstock.cluster.topic_reading.range_reads import Budget, RangeReads, offsets_of
from penstock.cluster.topic_reading.showing import DECODE_S, Decoder
from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.kafka.contracts import RecordConsumer

_MOST_BYTES = 128 << 20
_MOST_S = 5.0


class KeyOf(NamedTuple):
    """A key as it is in a topic: its form, its bytes, and the partitions that may have it, None for all."""

    form: KeyForm
    data: bytes
    partitions: tuple[int, ...] | None


def key_records(
    source: TopicSource, serdes: PickledSerdes, topic: str, key: KeyOf, scan: KeyScan, budget: Budget | None = None
) -> KeyRecords:
    """Returns the records of ``key`` in ``topic``. Raises ValueError for a cursor that no answer ever gave."""
    start = start_of(scan.cursor)
    budget = budget or Budget(_MOST_BYTES, _MOST_S)
    with closing(source.clients.restore_consumer()) as consumer:
        ranges = within(offsets_of(source.clients, consumer, topic), key.partitions)
        if scan.from_ms is not None:
            ranges = _since(consumer, topic, ranges, scan.from_ms)
        found = Backwards(ranges, lambda data: key.form.is_of(data, key.data), scan.limit, scan.offsets, start)
        reads = RangeReads(consumer, topic, budget)
        while (window := found.next_window()) and not budget.is_over:
            reads.read(window, found.take, found.end_window)
    decoder, known = Decoder(budget.clock() + DECODE_S, budget.clock), serdes.unpickled()
    records = []
    for each in found.records:
        window_of = None if each.key is None or not each.key.is_whole else key.form.window(each.key.data)
        records.append(shown_record(decoder, known, each, window_of))
    stopped = found.stopped or (budget.stopped if found.cursor else None)
    looked, compacted = tuple(found.looked), _is_compacted(source, topic)
    return KeyRecords(
        topic, serdes.use, tuple(records), looked, source.committed_only, compacted, found.cursor, stopped
    )


def _since(
    consumer: RecordConsumer, topic: str, ranges: Mapping[int, OffsetRange], from_ms: int
) -> dict[int, OffsetRange]:
    times = {TopicPartition(topic, number): from_ms for number in ranges}
    firsts = {at.partition: offset for at, offset in consumer.fetch_offsets_at(times).items()}
    return {
        number: OffsetRange(max(each.begin, firsts.get(number, each.end)), each.end) for number, each in ranges.items()
    }


def _is_compacted(source: TopicSource, topic: str) -> bool | None:
    policy = source.clients.admin().topic_configs([topic]).get(topic, {}).get("cleanup.policy")
    return None if policy is None else "compact" in policy
