"""Peeks at a topic: reads its newest records, and shows them decoded. Blocks: runs in a thread of its own."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from penstock.cluster.record_side import Peek, ShownRecord
from penstock.cluster.topic_reading.newest import Kept, Newest
from penstock.cluster.topic_reading.range_reads import Bounds, Budget, RangeReads
from penstock.cluster.topic_reading.showing import Decoder, shown_headers
from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.windows import Window

MOST_BYTES = 64 << 20
MOST_S = 4.0
DECODE_S = 2.0


def peeked(source: TopicSource, serdes: PickledSerdes, topic: str, limit: int, budget: Budget | None = None) -> Peek:
    """Returns the newest ``limit`` records of ``topic``."""
    budget = budget or Budget(MOST_BYTES, MOST_S)
    with closing(source.clients.restore_consumer()) as consumer:
        newest = Newest(Bounds.of(source.clients, consumer, topic).ranges, limit)
        reads = RangeReads(consumer, topic, budget)
        while (windows := newest.next_round()) and not budget.is_over:
            reads.read(windows, newest.take, newest.end_window)
    decoder = Decoder(budget.clock() + DECODE_S, budget.clock)
    records = tuple(map(partial(shown_record, decoder, serdes.unpickled()), newest.records()))
    looked = tuple(newest.looked())
    return Peek(topic, serdes.use, records, looked, source.committed_only, budget.stopped)


def shown_record(
    decoder: Decoder, serdes: TopicSerdes | str, record: Kept, window: Window | None = None
) -> ShownRecord:
    """Returns a record as it is shown. ``serdes``: may be the reason why there are none."""
    key, value, why = (None, None, serdes) if isinstance(serdes, str) else (serdes.key, serdes.value, None)
    return ShownRecord(
        record.partition,
        record.offset,
        record.timestamp,
        decoder.show(key, record.key, why),
        decoder.show(value, record.value, why),
        shown_headers(record.headers),
        record.header_count,
        window,
    )
