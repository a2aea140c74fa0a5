"""Peeks at a topic: reads its newest records, and shows them decoded. Blocks: runs in a thread of its own."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from penstock.cluster.record_side import Peek
from penstock.cluster.topic_reading.kept_records import shown_record
from penstock.cluster.topic_reading.newest import Newest
from penstock.cluster.topic_reading.range_reads import Budget, RangeReads, offsets_of
from penstock.cluster.topic_reading.showing import DECODE_S, Decoder
from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource

MOST_BYTES = 64 << 20
MOST_S = 4.0


def peeked(source: TopicSource, serdes: PickledSerdes, topic: str, limit: int, budget: Budget | None = None) -> Peek:
    """Returns the newest ``limit`` records of ``topic``."""
    budget = budget or Budget(MOST_BYTES, MOST_S)
    with closing(source.clients.restore_consumer()) as consumer:
        newest = Newest(offsets_of(source.clients, consumer, topic), limit)
        reads = RangeReads(consumer, topic, budget)
        while (windows := newest.next_round()) and not budget.is_over:
            reads.read(windows, newest.take, newest.end_window)
    decoder = Decoder(budget.clock() + DECODE_S, budget.clock)
    records = tuple(map(partial(shown_record, decoder, serdes.unpickled()), newest.records()))
    looked = tuple(newest.looked())
    return Peek(topic, serdes.use, records, looked, source.committed_only, budget.stopped)
