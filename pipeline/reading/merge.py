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

RECORDS_PER_CHUNK = 10_000
BYTES_OF_PARTITION = 16 << 20
"""Bytes of values of one partition after which no further records of it are taken into a chunk."""
TimesOf = Callable[[RecordBatch], Sequence[int]]
"""Returns the time (ms) of each record of a batch, by which a task orders it."""


class TimedBatches(NamedTuple):
    """The records of a partition, and their times: by default their timestamps."""

    batches: Iterator[RecordBatch]
    times_of: TimesOf = attrgetter("timestamps")


def merged(
    partitions: Sequence[TimedBatches], records: int = RECORDS_PER_CHUNK, bytes_of_partition: int = BYTES_OF_PARTITION
) -> Iterator[Chunk]:
    """Yields the records of ``partitions`` in chunks of ``records``, or of fewer large ones.

    The order is that of (running maximum of the times, place of the partition in ``partitions``, offset). The chunks
    depend on the records alone, not on the batches in which they come.
    """
    waiting = [_Partition(*each, bytes_of_partition) for each in partitions]
    while True:
        for partition in waiting:
            partition.load(records)
        waiting = [partition for partition in waiting if partition.count]
        if not waiting:
            return
        order = _order(waiting, records)
        counts = np.bincount(order, minlength=len(waiting)).tolist()
        taken = [partition.take(count) for partition, count in zip(waiting, counts, strict=True)]
        yield Chunk(taken, order.tolist())


def _order(partitions: Sequence[_Partition], records: int) -> NDArray[np.intp]:
    """Returns the index of its partition for each of the first ``records`` in the merged order. Fewer, if a partition
    has so large ones that not as many are loaded: nothing that may follow its last one is taken."""
    counts = [partition.ready(records) for partition in partitions]
    if len(partitions) == 1:
        return np.zeros(counts[0], np.intp)
    times = [partition.times[:count] for partition, count in zip(partitions, counts, strict=True)]
    indexes = np.repeat(np.arange(len(times)), counts)
    # Stable: within a partition times never fall, and offsets ascend.
    ordered: NDArray[np.intp] = indexes[np.argsort(np.concatenate(times), kind="stable")[:records]]
    for index, (partition, count) in enumerate(zip(partitions, counts, strict=True)):
        if partition.is_large(count) and len(own := np.flatnonzero(ordered == index)) == count:
            ordered = ordered[: int(own[-1]) + 1]
    return ordered


class _Partition:
    """The records of one partition that are loaded and not taken yet, with their running maxima.

    ``most_bytes``: once that many bytes are loaded, no further records are.
    """

    def __init__(self, batches: Iterator[RecordBatch], times_of: TimesOf, most_bytes: int = BYTES_OF_PARTITION) -> None:
        self._batches = batches
        self._times_of = times_of
        self._most_bytes = most_bytes
        self._loaded: list[RecordBatch] = []
        self._latest = -1
        self.times: NDArray[np.int64] = np.empty(0, np.int64)
        self._sizes: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        """Number of records that can be taken."""
        return len(self.times)

    def load(self, records: int) -> None:
        """Load until ``records`` can be taken, or enough bytes, or no more come."""
        size = int(self._sizes.sum())
        while self.count < records and size < self._most_bytes and (batch := next(self._batches, None)) is not None:
            if len(batch):
                self._loaded.append(batch)
                self.times = np.concatenate([self.times, self._running_maxima(batch)])
                own = _sizes(batch.values)
                self._sizes = np.concatenate([self._sizes, own])
                size += int(own.sum())

    def ready(self, records: int) -> int:
        """Returns how many may be taken at once: at most ``records``, and of large ones fewer. Whatever more is loaded
        depends on the batches."""
        large = int(np.searchsorted(np.cumsum(self._sizes[:records]), self._most_bytes)) + 1
        return min(records, self.count, large)

    def is_large(self, count: int) -> bool:
        """Returns True if the first ``count`` records are so large that it is not known if more come."""
        return int(self._sizes[:count].sum()) >= self._most_bytes

    def _running_maxima(self, batch: RecordBatch) -> NDArray[np.int64]:
        times = np.maximum.accumulate(np.asarray(self._times_of(batch), np.int64))
        times = np.maximum(times, self._latest)
        self._latest = int(times[-1])
        return times

    def take(self, count: int) -> list[RecordBatch]:
        """Take out the first ``count`` records."""
        self.times, self._sizes = self.times[count:], self._sizes[count:]
        return take_out(self._loaded, count)


def take_out(loaded: list[RecordBatch], count: int) -> list[RecordBatch]:
    """Take the first ``count`` records out of ``loaded``, which has so many."""
    taken = []
    while count:
        batch = loaded[0]
        if len(batch) <= count:
            taken.append(loaded.pop(0))
        else:
            taken.append(batch.part(0, count))
            loaded[0] = batch.part(count, len(batch))
        count -= len(taken[-1])
    return taken


def _sizes(values: Sequence[bytes | None]) -> NDArray[np.int64]:
    return np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))


def merged_writers(writers: Sequence[Iterator[RecordBatch]]) -> Iterator[RecordBatch]:
    """Yields the records that several ``writers`` wrote to one partition of a repartition topic.

    Several live tasks write a partition at once, and each keeps its own order. Of all the orders that this allows, the
    one that follows event time is used: (running maximum of the writer's timestamps, writer, its order).
    """
    waiting = [_Partition(*TimedBatches(batches)) for batches in writers]
    while True:
        for writer in waiting:
            writer.load(1)
        waiting = [writer for writer in waiting if writer.count]
        if not waiting:
            return
        yield from _safe(waiting)


def _safe(writers: Sequence[_Partition]) -> Iterator[RecordBatch]:
    """Takes out what no record that is not loaded yet can precede: yields it in order."""
    last = min((int(writer.times[-1]), number) for number, writer in enumerate(writers))
    counts = [
        int(np.searchsorted(writer.times, last[0], side="right" if number <= last[1] else "left"))
        for number, writer in enumerate(writers)
    ]
    times = np.concatenate([writer.times[:count] for writer, count in zip(writers, counts, strict=True)])
    taken = [batch for writer, count in zip(writers, counts, strict=True) for batch in writer.take(count)]
    if len(taken) == 1:
        yield taken[0]
    elif taken:
        yield joined(taken).chosen(np.argsort(times, kind="stable").tolist())
