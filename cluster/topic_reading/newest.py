"""Finds the newest records of a topic, from the ends of its partitions backwards. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.cluster.record_side import Looked
from penstock.cluster.topic_reading.kept_records import Kept, kept_of
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch

_WIDER = 4
"""Factor by which each window of a partition is wider than the one after it."""
_FIRST = 2
"""Width of the first windows: large records must not use up all bytes that may be read before one window ends."""
_LATEST = 1 << 63


@dataclass
class _Partition:
    """``kept``: the newest records, the newest first, each with the smallest timestamp from it to the end."""

    number: int
    begin: int
    end: int
    reached: int
    kept: list[tuple[int, Kept]] = field(default_factory=list)
    window: deque[Kept] = field(default_factory=deque)

    @property
    def smallest(self) -> int:
        """The smallest timestamp from the oldest record that is known to the end."""
        return self.kept[-1][0] if self.kept else _LATEST


class Newest:
    """The newest ``limit`` records of the partitions ``ranges``, found in rounds.

    The newest record is that of the greatest timestamp among the last records of all partitions, and so on: a record
    never comes before a later one of its partition. So the next record of a partition counts with the smallest
    timestamp from it to the end. In each round a window of each partition is read; a window that could add nothing to
    the ``limit`` records is left out.
    """

    def __init__(
        self,
        ranges: Mapping[int, OffsetRange],
        limit: int,
        keep: Callable[[RecordBatch, int], Kept] = kept_of,
    ) -> None:
        self._limit = limit
        self._keep = keep
        self._partitions = {
            number: _Partition(number, each.begin, max(each.begin, each.end), max(each.begin, each.end))
            for number, each in sorted(ranges.items())
        }
        self._windows: dict[int, OffsetRange] = {}
        self._width = _FIRST

    def next_round(self) -> dict[int, OffsetRange]:
        """Returns the windows to be read next, by partition; none when all is found."""
        windows = self._windows = {}
        least = self._least()
        for number, each in self._partitions.items():
            if each.reached > each.begin and len(each.kept) < self._limit and (least is None or each.smallest > least):
                windows[number] = OffsetRange(max(each.begin, each.reached - self._width), each.reached)
        self._width *= _WIDER
        return windows

    def _least(self) -> int | None:
        """The key of the last record that counts now; None while there are too few."""
        keys = heapq.nlargest(self._limit, (key for each in self._partitions.values() for key, _ in each.kept))
        return keys[-1] if len(keys) == self._limit else None

    def take(self, batch: RecordBatch) -> None:
        """Take records of a window, in their order."""
        window = self._partitions[batch.partition.partition].window
        for index in range(max(0, len(batch) - self._limit), len(batch)):
            window.append(self._keep(batch, index))
        while len(window) > self._limit:
            window.popleft()

    def end_window(self, number: int) -> None:
        """Note that the window of a partition is read. Others do not count, as newer records are missing."""
        each = self._partitions[number]
        smallest = each.smallest
        while each.window and len(each.kept) < self._limit:
            record = each.window.pop()
            smallest = min(smallest, record.timestamp)
            each.kept.append((smallest, record))
        each.window.clear()
        each.reached = self._windows[number].begin

    def records(self) -> list[Kept]:
        """Returns the records that are found, the newest first."""
        found = heapq.merge(*(self._keyed(each) for each in self._partitions.values()))
        return [record for _, (_, record) in zip(range(self._limit), found, strict=False)]

    @staticmethod
    def _keyed(each: _Partition) -> Iterator[tuple[tuple[int, int, int], Kept]]:
        for key, record in each.kept:
            yield (-key, each.number, -record.offset), record

    def looked(self) -> list[Looked]:
        """Returns the offsets that were looked at."""
        return [Looked(each.number, each.begin, each.reached, each.end) for each in self._partitions.values()]
