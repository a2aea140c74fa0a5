"""Takes the records that are due next from several partitions, in one order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.common.records import RecordBatch

RECORDS_PER_CHUNK = 10_000
BYTES_PER_CHUNK = 32 << 20
"""Bytes that a chunk may have, and one more record of each partition, if there are at most 128 partitions. With more,
the limit is 256 kB for each partition."""
_MOST_OF_PARTITION = 16 << 20
_LEAST_OF_PARTITION = 256 << 10
"""Least share of a partition, however many there are: with less, a chunk would have few records."""
_MANY_PARTITIONS = 4
"""With fewer, sorting all that is loaded costs less than finding what need not be sorted."""


class DueBatch(NamedTuple):
    """Records of a partition in the order in which they are due: by ``due`` (ms), and then by ``places``."""

    batch: RecordBatch
    due: NDArray[np.int64]
    places: NDArray[np.int64]


class Taken(NamedTuple):
    """The records that are due next. ``partitions``: the batches of each partition that has records. For each record,
    in order: ``order`` has the index of its partition, ``due`` and ``places`` have its own."""

    partitions: list[list[RecordBatch]]
    order: NDArray[np.intp]
    due: NDArray[np.int64]
    places: NDArray[np.int64]


def taken_in_order(
    partitions: Sequence[Iterator[DueBatch]], records: int = RECORDS_PER_CHUNK, bytes_of_partition: int | None = None
) -> Iterator[Taken]:
    """Yields ``records`` at a time. Yields fewer if they are large: of each partition at most those with which
    ``bytes_of_partition`` is reached. None: a share of ``BYTES_PER_CHUNK``.

    The order is that of (due, place, index of the partition, order within the partition). The records that are taken
    at once depend on the records alone, not on the batches in which they come.
    """
    share = min(_MOST_OF_PARTITION, max(_LEAST_OF_PARTITION, BYTES_PER_CHUNK // max(1, len(partitions))))
    waiting = [DuePartition(each, bytes_of_partition or share) for each in partitions]
    while True:
        for partition in waiting:
            partition.load(records)
        waiting = [partition for partition in waiting if partition.count]
        if not waiting:
            return
        yield _take(waiting, records)


def _take(waiting: Sequence[DuePartition], records: int) -> Taken:
    ready = [partition.ready(records) for partition in waiting]
    counts = _first_of(waiting, ready, records)
    due = np.concatenate([partition.due[:count] for partition, count in zip(waiting, counts, strict=True)])
    places = np.concatenate([partition.places[:count] for partition, count in zip(waiting, counts, strict=True)])
    indexes = np.repeat(np.arange(len(waiting)), counts)
    # Stable: partitions as they come, and each in its own order.
    sequence = np.lexsort((places, due))[:records] if len(waiting) > 1 else np.arange(len(due))
    order = indexes[sequence]
    for index, (partition, count) in enumerate(zip(waiting, ready, strict=True)):
        # The next record of this partition is not known: nothing that may come behind that is taken.
        if partition.is_large(count) and len(own := np.flatnonzero(order == index)) == count:
            order = order[: int(own[-1]) + 1]
    sequence = sequence[: len(order)]
    taken = np.bincount(order, minlength=len(waiting)).tolist()
    batches = [partition.take(count) for partition, count in zip(waiting, taken, strict=True)]
    return Taken(batches, order, due[sequence], places[sequence])


def _first_of(waiting: Sequence[DuePartition], ready: Sequence[int], records: int) -> list[int]:
    """Returns for each partition how many of those that are ``ready`` may be among the first ``records`` of all: the
    others need not be sorted."""
    if len(waiting) < _MANY_PARTITIONS or sum(ready) <= records:
        return list(ready)
    due = np.concatenate([partition.due[:count] for partition, count in zip(waiting, ready, strict=True)])
    last = np.partition(due, records - 1)[records - 1]
    return [
        int(np.searchsorted(partition.due[:count], last, side="right"))
        for partition, count in zip(waiting, ready, strict=True)
    ]


class DuePartition:
    """The records of one partition that are loaded and not taken yet. Once ``most_bytes`` are loaded, no further batch
    is; None: there is no bound."""

    def __init__(self, batches: Iterator[DueBatch], most_bytes: int | None) -> None:
        self._batches = batches
        self._most_bytes = most_bytes
        self._loaded: list[RecordBatch] = []
        self.due: NDArray[np.int64] = np.empty(0, np.int64)
        self.places: NDArray[np.int64] = np.empty(0, np.int64)
        self._sizes: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        """Number of records that can be taken."""
        return len(self.due)

    def load(self, records: int) -> None:
        """Load batches until ``records`` can be taken, or enough bytes are loaded, or no batch is left."""
        while self.count < records and not self.is_large(self.count):
            if (found := next(self._batches, None)) is None:
                return
            if len(found.batch):
                self._loaded.append(found.batch)
                self.due = np.concatenate([self.due, found.due])
                self.places = np.concatenate([self.places, found.places])
                if self._most_bytes is not None:
                    self._sizes = np.concatenate([self._sizes, _sizes(found.batch)])

    def ready(self, records: int) -> int:
        """Returns the number of records that may be taken at once: at most ``records``, and fewer if they are large. It
        does not count records that are loaded because of the sizes of the batches."""
        most = min(records, self.count)
        if self._most_bytes is None or not self.is_large(most):
            return most
        return int(np.searchsorted(np.cumsum(self._sizes[:most]), self._most_bytes)) + 1

    def is_large(self, count: int) -> bool:
        """Returns True if the first ``count`` records are so large that the record behind them need not be loaded."""
        return self._most_bytes is not None and int(self._sizes[:count].sum()) >= self._most_bytes

    def take(self, count: int) -> list[RecordBatch]:
        """Take out the first ``count`` records."""
        self.due, self.places, self._sizes = self.due[count:], self.places[count:], self._sizes[count:]
        taken = []
        while count:
            batch = self._loaded[0]
            if len(batch) <= count:
                taken.append(self._loaded.pop(0))
            else:
                taken.append(batch.part(0, count))
                self._loaded[0] = batch.part(count, len(batch))
            count -= len(taken[-1])
        return taken


def _sizes(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns the bytes of each record: of its key, its value and its headers."""
    sizes = _lengths(batch.keys) + _lengths(batch.values)
    if batch.headers is not None:
        of_headers = (sum(len(name) + len(value or b"") for name, value in own or ()) for own in batch.headers)
        sizes += np.fromiter(of_headers, np.int64, len(batch))
    return sizes


def _lengths(column: Sequence[bytes | None]) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(len, column), np.int64, len(column))  # type: ignore[arg-type]  # twice as fast
    except TypeError:  # some are None
        return np.fromiter((0 if it is None else len(it) for it in column), np.int64, len(column))
