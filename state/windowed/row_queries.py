"""Rows of window stores and session stores for the answers to queries: in an order in which an answer can continue,
with little work at a time, because records wait meanwhile.

Nothing changes the store while rows are taken, so what is not committed yet need not be copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from penstock.state.queries import PASSED, QueryRow
from penstock.state.rows.row_formats import Entry, EntryRow
from penstock.state.windowed.expiring_rows import ExpiringRows
from penstock.state.windowed.keys import changelog_key, last_row_key
from penstock.state.windowed.segments import SEGMENT_BYTES, pack_segment

_STEP_ROWS = 512
"""Number of rows that are read, or passed over, at once."""

Found = tuple[bytes, Entry | None]
"""A row, or None for one that was passed over: see :data:`~penstock.state.queries.PASSED`."""


class Place(NamedTuple):
    """The place at which an answer continues, and its direction. ``after`` is a key of the changelog."""

    after: bytes | None
    committed: bool
    descending: bool

    def is_ahead(self, key: bytes) -> bool:
        """Returns True if the row with this key of the changelog is still to be given."""
        if self.after is None:
            return True
        return key < self.after if self.descending else key > self.after


def rows_of_key(
    rows: ExpiringRows,
    key: bytes,
    time_from: int,
    time_to: int,
    place: Place,
    also: Callable[[bytes], bool] | None = None,
) -> Iterator[Found]:
    """The rows of ``key`` between the times, both included, by time. ``also`` returns True for the key of a row that
    is wanted."""
    if place.after is not None:
        reached = rows.schema.time(place.after)
        if place.descending:
            time_to = min(time_to, reached)
        else:
            time_from = max(time_from, reached)
    begin, end, segments = rows.visible(time_from, time_to, place.committed)
    # Between them lie rows of keys that begin with this one, too.
    length = SEGMENT_BYTES + len(key) + rows.schema.suffix_bytes

    def is_wanted(row_key: bytes) -> bool:
        if len(row_key) != length or (also is not None and not also(row_key)):
            return False
        return place.is_ahead(changelog_key(row_key))

    for segment in reversed(segments) if place.descending else segments:
        front = pack_segment(segment) + key
        last = rows.schema.last(min(end, rows.segments.last_timestamp(segment)))
        yield from _only(_scan(rows, front + rows.schema.first(begin), front + last, place), is_wanted)


def rows_of_keys(
    rows: ExpiringRows,
    key_from: bytes | None,
    key_to: bytes | None,
    times: tuple[int, int],
    place: Place,
    also: Callable[[bytes], bool] | None = None,
) -> Iterator[Found]:
    """The rows of keys and times in these ranges, all ends included, None is open, by their keys in the changelog.
    ``also`` returns True for the key of a row that is wanted."""
    begin, end, segments = rows.visible(*times, place.committed)
    scans = []
    for segment in segments:
        front = pack_segment(segment)
        first = key_from or b""
        largest = pack_segment(segment + 1)  # where no row is
        if key_to is not None:
            largest = front + last_row_key(key_to, rows.schema.last(min(end, rows.segments.last_timestamp(segment))))
        if place.after is not None and place.descending:
            largest = min(largest, front + place.after)
        elif place.after is not None:
            first = max(first, place.after + b"\x00")

        def is_wanted(row_key: bytes) -> bool:
            key = rows.key(row_key)
            return (
                begin <= rows.schema.time(row_key) <= end
                and (key_from is None or key >= key_from)
                and (key_to is None or key <= key_to)
                and (also is None or also(row_key))
                and place.is_ahead(changelog_key(row_key))
            )

        scans.append(_only(_scan(rows, front + first, largest, place), is_wanted))
    return merge(*scans, key=lambda row: changelog_key(row[0]), reverse=place.descending)


def answered(found: Iterator[Found], to_row: Callable[[EntryRow], QueryRow], limit: int) -> Iterator[QueryRow]:
    """Yields these rows as an answer, at most ``limit``, and ``PASSED`` for those that were passed over."""
    for key, entry in found:
        if entry is None:
            yield QueryRow(changelog_key(key), PASSED, None)
            continue
        if limit <= 0:
            return
        limit -= 1
        yield to_row((key, entry))


def _scan(rows: ExpiringRows, first: bytes, last: bytes, place: Place) -> Iterator[EntryRow]:
    scan, reverse = rows.buffer.scan, place.descending
    if place.committed:
        yield from scan(first, last, reverse, committed=True)
        return
    passed: bytes | None = None
    while True:
        count = 0
        for row in islice(scan(first, last, reverse, limit=_STEP_ROWS), _STEP_ROWS):
            count += 1
            if row[0] != passed:
                yield row
        if count < _STEP_ROWS:
            return
        passed = row[0]
        if reverse:
            last = passed
        else:
            first = passed + b"\x00"


def _only(found: Iterator[EntryRow], is_wanted: Callable[[bytes], bool]) -> Iterator[Found]:
    passed = 0
    for row in found:
        if is_wanted(row[0]):
            passed = 0
            yield row
        else:
            passed += 1
            if passed == _STEP_ROWS:
                passed = 0
                yield row[0], None
