"""Merges the records of partitions into the order in which a live task would take them. Pure.

A live task takes the record whose partition has the smallest head timestamp, and partitions keep their order: a late
record follows its predecessor at once. That is the order of the running maximum of timestamps within each partition. If
records of several topics have the same one, a live task takes turns, as far as a batch has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.common.records import RecordBatch, joined
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.due_records import RECORDS_PER_CHUNK, DueBatch, DuePartition, taken_in_order

TimesOf = Callable[[RecordBatch], Sequence[int]]
"""Returns the time (ms) of each record of a batch, by which a task orders it."""


class TimedBatches(NamedTuple):
    """The records of a partition, and their times: by default their timestamps."""

    batches: Iterator[RecordBatch]
    times_of: TimesOf = attrgetter("timestamps")


def merged(
    partitions: Sequence[TimedBatches], records: int = RECORDS_PER_CHUNK, bytes_of_partition: int | None = None
) -> Iterator[Chunk]:
    """Yields the records of ``partitions`` in chunks of ``records``, or of fewer large ones.

    The order is that of (running maximum of the times, place of the partition in ``partitions``, offset). The chunks
    depend on the records alone, not on the batches in which they come.
    """
    for taken in taken_in_order(list(map(_due, partitions)), records, bytes_of_partition):
        yield Chunk(taken.partitions, taken.order.tolist())


def running_maxima(partition: TimedBatches) -> Iterator[tuple[RecordBatch, NDArray[np.int64]]]:
    """Yields the batches of a partition that have records, each with the running maxima of the times of its records."""
    latest = -1
    for batch in partition.batches:
        if len(batch):
            times = np.maximum.accumulate(np.asarray(partition.times_of(batch), np.int64))
            times = np.maximum(times, latest)
            latest = int(times[-1])
            yield batch, times


def _due(partition: TimedBatches) -> Iterator[DueBatch]:
    for batch, times in running_maxima(partition):
        yield DueBatch(batch, times, np.zeros(len(times), np.int64))


def merged_writers(writers: Sequence[Iterator[RecordBatch]]) -> Iterator[RecordBatch]:
    """Yields the records that several ``writers`` wrote to one partition of a repartition topic.

    Several live tasks write a partition at once, and each keeps its own order. Of all the orders that this allows, the
    one that follows event time is used: (running maximum of the writer's timestamps, writer, its order).
    """
    waiting = [DuePartition(_due(TimedBatches(batches)), most_bytes=None) for batches in writers]
    while True:
        for writer in waiting:
            writer.load(1)
        waiting = [writer for writer in waiting if writer.count]
        if not waiting:
            return
        yield from _safe(waiting)


def _safe(writers: Sequence[DuePartition]) -> Iterator[RecordBatch]:
    """Takes out what no record that is not loaded yet can precede: yields it in order."""
    last = min((int(writer.due[-1]), number) for number, writer in enumerate(writers))
    counts = [
        int(np.searchsorted(writer.due, last[0], side="right" if number <= last[1] else "left"))
        for number, writer in enumerate(writers)
    ]
    times = np.concatenate([writer.due[:count] for writer, count in zip(writers, counts, strict=True)])
    taken = [batch for writer, count in zip(writers, counts, strict=True) for batch in writer.take(count)]
    if len(taken) == 1:
        yield taken[0]
    elif taken:
        yield joined(taken).chosen(np.argsort(times, kind="stable").tolist())
