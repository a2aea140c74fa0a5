"""The row of a key's older versions: those that were replaced, or deleted, within one segment of time.

Its bytes are those of Kafka Streams' ``RocksDBVersionedStoreSegmentValueFormatter``.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from struct import Struct

from penstock.common.serdes import Serde

_SPAN = Struct(">qq")
_VERSION = Struct(">qi")
_DELETED = -1


@dataclass(slots=True)
class History:
    """Versions without a gap between them: each is valid from its start to the start of the next, the last to ``end``.

    ``values`` are serialised, None is a deletion. Without any version it is a deletion at ``end`` and nothing else.
    """

    end: int
    starts: list[int]
    values: list[bytes | None]

    @property
    def start(self) -> int:
        """The time at which the first version begins; ``end`` if there is none."""
        return self.starts[0] if self.starts else self.end

    def at(self, timestamp: int) -> int:
        """The index of the version that is valid at ``timestamp``, which lies between start and end."""
        return bisect_right(self.starts, timestamp) - 1

    def valid_to(self, index: int) -> int:
        """Returns the time until which the version at ``index`` is valid."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def append(self, start: int, end: int, value: bytes | None) -> None:
        """Add a version after all others. If there is a gap between it and them, a deletion fills it."""
        if start > self.end:
            self.starts.append(self.end)
            self.values.append(None)
        self.starts.append(start)
        self.values.append(value)
        self.end = end

    def insert(self, index: int, start: int, value: bytes | None) -> None:
        """Insert a version at ``index``: it ends where the one that was there begins."""
        self.starts.insert(index, start)
        self.values.insert(index, value)


def _serialize(history: History) -> bytes:
    starts, values = history.starts, history.values
    parts = [_SPAN.pack(history.end, history.start)]
    if not starts:
        return parts[0] + _VERSION.pack(history.end, _DELETED)
    parts += [
        _VERSION.pack(start, _DELETED if value is None else len(value))
        for start, value in zip(reversed(starts), reversed(values), strict=True)
    ]
    parts += [value for value in values if value is not None]
    return b"".join(parts)


def _deserialize(row: bytes) -> History:
    end, first = _SPAN.unpack_from(row)
    if end == first:
        return History(end, [], [])
    starts: list[int] = []
    values: list[bytes | None] = []
    index, stop, start = _SPAN.size, len(row), end
    while start != first:
        start, size = _VERSION.unpack_from(row, index)
        index += _VERSION.size
        starts.append(start)
        # The newest version comes first, and its value last.
        values.append(None if size == _DELETED else row[stop - size : stop])
        stop -= max(size, 0)
    starts.reverse()
    values.reverse()
    return History(end, starts, values)


HISTORY: Serde[History] = Serde("history", _serialize, _deserialize)
