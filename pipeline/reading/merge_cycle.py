"""Merges what a task of a pass over a cycle reads: each record that an earlier pass wrote behind the one that led to
it. Pure.

The order of a cycle is that of the records from outside, over all of its tasks: (running maximum of the times, topic,
partition, offset). A record that a task wrote has the place of the one that it was processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.due_records import RECORDS_PER_CHUNK, DueBatch, taken_in_order
from penstock.pipeline.reading.merge import TimedBatches, running_maxima


def placed(partition: TimedBatches, place: int, begin: int | None) -> Iterator[DueBatch]:
    """Yields the records of a partition from outside. ``place`` is that of the first one, which has the offset
    ``begin``. If ``begin`` is None, offsets do not ascend, and records are numbered instead."""
    count = 0
    for batch, due in running_maxima(partition):
        if begin is None:
            numbers = np.arange(count, count + len(batch), dtype=np.int64)
            count += len(batch)
        else:
            numbers = np.asarray(batch.offsets, np.int64) - begin
        yield DueBatch(batch, due, numbers + place)


def merged_cycle(
    partitions: Sequence[Iterator[DueBatch]], records: int = RECORDS_PER_CHUNK, bytes_of_partition: int | None = None
) -> Iterator[Chunk]:
    """Yields the records of ``partitions`` in chunks of ``records``, or of fewer large ones. Of records that are
    due at the same time and place, that of the first partition is first. The chunks depend on the records alone."""
    for taken in taken_in_order(partitions, records, bytes_of_partition):
        yield Chunk(taken.partitions, taken.order.tolist(), taken.due.tolist(), taken.places.tolist())
