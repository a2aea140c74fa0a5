"""Merges what a task of a pass over a cycle reads: each record that an earlier pass wrote behind the one that led to
it. Pure.

The order of a cycle is that of the records from outside, over all of its tasks: (running maximum of the times, topic,
partition, offset). A record that a task wrote has the place of the one that it was processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.common.records import RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.merge import RECORDS_PER_CHUNK, TimedBatches, take_out


class PlacedBatch(NamedTuple):
    """Records of a partition that ascend in the order of the cycle: by ``due`` (ms), and then by ``places``."""

    batch: RecordBatch
    due: NDArray[np.int64]
    places: NDArray[np.int64]


def placed(partition: TimedBatches, place: int, begin: int | None) -> Iterator[PlacedBatch]:
    """Yields the records of a partition from outside. ``place`` is that of the first one, which has the offset
    ``begin``. None: their offsets do not ascend, and they are counted."""
    latest, count = -1, 0
    for batch in partition.batches:
        if not len(batch):
            continue
        due = np.maximum(np.maximum.accumulate(np.asarray(partition.times_of(batch), np.int64)), latest)
        latest = int(due[-1])
        if begin is None:
            numbers = np.arange(count, count + len(batch), dtype=np.int64)
            count += len(batch)
        else:
            numbers = np.asarray(batch.offsets, np.int64) - begin
        yield PlacedBatch(batch, due, numbers + place)


def merged_cycle(partitions: Sequence[Iterator[PlacedBatch]], records: int = RECORDS_PER_CHUNK) -> Iterator[Chunk]:
    """Yields the records of ``partitions`` in chunks of ``records``. Of records in the same place, that of the first
    partition is first. The chunks depend on the records alone."""
    waiting = [_Waiting(each) for each in partitions]
    while True:
        for each in waiting:
            each.load(records)
        waiting = [each for each in waiting if each.count]
        if not waiting:
            return
        counts = _counts(waiting, records)
        due = np.concatenate([each.due[:count] for each, count in zip(waiting, counts, strict=True)])
        places = np.concatenate([each.places[:count] for each, count in zip(waiting, counts, strict=True)])
        indexes = np.repeat(np.arange(len(waiting)), counts)
        order = np.lexsort((places, due))[:records]  # stable: partitions as they come, and each in its own order
        mine = indexes[order]
        taken = np.bincount(mine, minlength=len(waiting)).tolist()
        batches = [each.take(count) for each, count in zip(waiting, taken, strict=True)]
        yield Chunk(batches, mine.tolist(), due[order].tolist(), places[order].tolist())


def _counts(waiting: Sequence[_Waiting], records: int) -> list[int]:
    """Returns for each partition the number of records of which the first ``records`` in order are some."""
    due = np.concatenate([each.due[:records] for each in waiting])
    if len(due) <= records:
        return [min(each.count, records) for each in waiting]
    last = np.partition(due, records - 1)[records - 1]
    return [min(int(np.searchsorted(each.due, last, side="right")), records) for each in waiting]


class _Waiting:
    """The records of one partition that are loaded and not taken yet."""

    def __init__(self, batches: Iterator[PlacedBatch]) -> None:
        self._batches = batches
        self._loaded: list[RecordBatch] = []
        self.due: NDArray[np.int64] = np.empty(0, np.int64)
        self.places: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return len(self.due)

    def load(self, records: int) -> None:
        while self.count < records and (found := next(self._batches, None)) is not None:
            self._loaded.append(found.batch)
            self.due = np.concatenate([self.due, found.due])
            self.places = np.concatenate([self.places, found.places])

    def take(self, count: int) -> list[RecordBatch]:
        self.due, self.places = self.due[count:], self.places[count:]
        return take_out(self._loaded, count)
