"""Looks for the records of a key in partitions of a topic, from the end backwards. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.cluster.record_side import Looked
from penstock.cluster.topic_reading.kept_records import Kept, kept_of
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch

_NARROWEST, _WIDEST = 4, 100_000
"""Bounds of a window. The first are narrow, so that large records do not use up all bytes before one window ends: then
no answer would come nearer to the beginning."""
_WIDER = 4

IsOfKey = Callable[[bytes | None], bool]


class Start(NamedTuple):
    """The place where a scan continues: below ``offset`` of a partition. Those before it are done."""

    partition: int
    offset: int


@dataclass
class _Partition:
    number: int
    begin: int
    end: int
    reached: int
    found: list[Kept] = field(default_factory=list)


class Backwards:
    """The scan of ``ranges``, one partition after the other, from the end of the first, or from ``start``. It ends when
    ``limit`` records are found or ``offsets`` offsets are looked at."""

    def __init__(
        self,
        ranges: Mapping[int, OffsetRange],
        is_of_key: IsOfKey,
        limit: int,
        offsets: int,
        start: Start | None = None,
    ) -> None:
        self._is_of_key = is_of_key
        self._left = limit
        self._offsets = offsets
        self._all_offsets = offsets
        self._width = _NARROWEST
        self._window: OffsetRange | None = None
        self._hits: deque[Kept] = deque()
        self._partitions = {}
        for number, each in sorted(ranges.items()):
            end = max(each.begin, each.end)
            self._partitions[number] = _Partition(number, each.begin, end, _reached(number, each.begin, end, start))

    def next_window(self) -> dict[int, OffsetRange]:
        """Returns the next window of a partition, by its number; nothing when the scan ends."""
        each = next((each for each in self._partitions.values() if each.reached > each.begin), None)
        if each is None or self._left <= 0 or self._offsets <= 0:
            return {}
        width = min(self._width, self._offsets)
        self._width = min(self._width * _WIDER, _WIDEST)
        self._window = OffsetRange(max(each.begin, each.reached - width), each.reached)
        self._hits.clear()
        return {each.number: self._window}

    def take(self, batch: RecordBatch) -> None:
        """Take records of the window, in their order."""
        for index, key in enumerate(batch.keys):
            if self._is_of_key(key):
                self._hits.append(kept_of(batch, index))
                if len(self._hits) > self._left:
                    self._hits.popleft()

    def end_window(self, number: int) -> None:
        """Note that the window is read."""
        assert self._window is not None
        each = self._partitions[number]
        each.found += reversed(self._hits)
        self._left -= len(self._hits)
        # Older records of the key may have been left out, so the next answer begins before the last that is given.
        is_full = self._left <= 0 and self._hits
        reached = self._hits[0].offset if is_full else self._window.begin
        self._offsets -= each.reached - reached
        each.reached = reached
        self._hits.clear()

    @property
    def records(self) -> list[Kept]:
        """The records that are found, of each partition the newest first."""
        return [record for each in self._partitions.values() for record in each.found]

    @property
    def looked(self) -> list[Looked]:
        """The offsets that were looked at, or were by the answers that this one continues."""
        return [Looked(each.number, each.begin, each.reached, each.end) for each in self._partitions.values()]

    @property
    def cursor(self) -> str | None:
        """The text from which :func:`start_of` makes the ``start`` of the next scan; None if nothing is left."""
        each = next((each for each in self._partitions.values() if each.reached > each.begin), None)
        return None if each is None else f"{each.number}:{each.reached}"

    @property
    def stopped(self) -> str | None:
        """The limit by which the scan ended before it has found ``limit`` records."""
        if self._left <= 0 or self._offsets > 0 or self.cursor is None:
            return None
        return f"{self._all_offsets:,} offsets"


def _reached(number: int, begin: int, end: int, start: Start | None) -> int:
    """Returns the offset from which a partition is still to be looked at."""
    if start is None or number > start.partition:
        return end
    return min(max(start.offset, begin), end) if number == start.partition else begin


def start_of(cursor: str | None) -> Start | None:
    """Returns the start that a cursor has. Raises ValueError."""
    if cursor is None:
        return None
    number, _, offset = cursor.partition(":")
    if not (_is_number(number) and _is_number(offset)):
        raise ValueError(f"not a cursor of an earlier answer: {cursor[:200]!r}")
    return Start(int(number), int(offset))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def within(ranges: Mapping[int, OffsetRange], wanted: Sequence[int] | None) -> dict[int, OffsetRange]:
    """Returns the ranges of the ``wanted`` partitions that there are; None: of all."""
    return {number: each for number, each in ranges.items() if wanted is None or number in wanted}
