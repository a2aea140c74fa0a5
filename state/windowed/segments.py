"""Segments: the layout of rows that expire, in which all that expire together are deleted by one range.

The key of a row begins with the number of the row's segment, a span of time as long as half of the retention.
Which segments are live follows from the *observed stream time*, the largest time that the store was ever given: never
from a clock. The rules are Kafka Streams' (``AbstractSegments``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from struct import Struct

from penstock.common.windows import LARGEST_TIMESTAMP

_SHORTEST_INTERVAL_MS = 60_000

# A segment's number, before each row of it. Times are not negative, so the order of bytes is that of time.
pack_segment = Struct(">q").pack
SEGMENT_BYTES = 8
_unpack_segment = Struct(">q").unpack_from
FEW = 64
"""A number of segments that a store does not reach while its rows expire."""

NOTHING_OBSERVED = -1
"""The observed stream time of a store that was given nothing yet."""


def with_rows(segments: range, scan: Callable[[bytes, bytes], Iterator[tuple[bytes, object]]]) -> list[int]:
    """Returns those of ``segments`` that have rows, oldest first. ``scan`` returns the rows between two keys, in order.

    There may be millions of segments, although few have rows. This happens if the changelog is ahead of the commit that
    its task continues from: nothing expires until records have come as far as before. Without a commit, all time since
    1970 counts.
    """
    found: list[int] = []
    start, end = segments.start, pack_segment(segments.stop)
    while (row := next(scan(pack_segment(start), end), None)) is not None:
        (segment,) = _unpack_segment(row[0])
        found.append(segment)
        start = segment + 1
    return found


@dataclass(frozen=True)
class Segments:
    """The segments of a store that keeps rows for ``retention_ms``.

    ``shows_last_ms``: a row that is older than the stream time by exactly the retention is still shown, as in the
    stores in which Kafka Streams keeps windows by time, for windows that are emitted on close.
    """

    retention_ms: int
    shows_last_ms: bool = False

    @cached_property
    def interval_ms(self) -> int:
        """Length of a segment (ms): half of the retention, at least a minute, at most ``LARGEST_TIMESTAMP``."""
        return min(max(self.retention_ms // 2, _SHORTEST_INTERVAL_MS), LARGEST_TIMESTAMP)

    def of(self, timestamp: int) -> int:
        """The number of the segment of ``timestamp``."""
        return timestamp // self.interval_ms

    def first_live(self, stream_time: int) -> int:
        """The oldest segment that takes rows at ``stream_time``; those before it are deleted."""
        return max(stream_time - self.retention_ms, 0) // self.interval_ms

    def first_visible(self, stream_time: int) -> int:
        """The oldest timestamp that is still shown at ``stream_time``: the rest of its segment has expired, too, but
        is deleted with all of it."""
        return max(stream_time - self.retention_ms + (0 if self.shows_last_ms else 1), 0)

    def lives_until(self, timestamp: int) -> int:
        """The last stream time at which the segment of ``timestamp`` takes rows."""
        return self.last_timestamp(self.of(timestamp)) + self.retention_ms

    def visible_until(self, timestamp: int) -> int:
        """The last stream time at which ``timestamp`` is shown."""
        return timestamp + self.retention_ms - (0 if self.shows_last_ms else 1)

    def first_timestamp(self, segment: int) -> int:
        """The first ms of ``segment``."""
        return segment * self.interval_ms

    def last_timestamp(self, segment: int) -> int:
        """The last ms of ``segment``."""
        return (segment + 1) * self.interval_ms - 1
