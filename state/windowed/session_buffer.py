"""The write buffers of session stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from operator import itemgetter
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.state.rows.row_formats import Entry, EntryRow
from penstock.state.windowed.segments import NOTHING_OBSERVED
from penstock.state.with_headers.buffer import HeadersBuffer
from penstock.state.write_buffer.flush_listeners import OnFlush
from penstock.state.write_buffer.write_buffer import WriteBuffer

_KEY = itemgetter(0)
_SOMETHING = object()
"""Placeholder for an old value that exists and that no listener wants."""


class SessionBuffer(WriteBuffer):
    """A write buffer of sessions. If it ``hides_expired``, a row that has expired when it is flushed has no old value
    for listeners, and its deletion goes neither to them nor to the changelog. Kafka Streams does the same if an
    aggregate has a cache (``CachingSessionStore``), whose flush no longer finds what has expired in the store.

    The latest end among the rows that were flushed before decides what has expired.
    """

    hides_expired = False

    time_of: Callable[[bytes], int]
    """The end of the session in a row's key."""
    first_visible: Callable[[int], int]
    """The first end that has not expired at a stream time."""
    flushed_time = NOTHING_OBSERVED
    """The time from which the retention of what is flushed is counted (``ExpiringRows.expiry_time``): after a crash it
    may be earlier than the observed stream time."""

    on_disk_until: Callable[[], int] | None = None
    """The latest end that a session on disk may have; None if that is not known. Nearly all growing sessions end later,
    and need not be looked for there."""

    _in_order: Iterator[EntryRow] = iter(())
    _hidden: list[bytes]
    _shown_from = NOTHING_OBSERVED
    """A row that ends here or later is shown, whichever rows of the step are flushed before it."""
    _committed: set[bytes]
    """Deleted rows that were committed, or about to be, when they were deleted: the disk need not be read for them."""
    _frozen_committed: set[bytes]
    """The part of such deleted rows that belongs to the commit that is flushed next."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._committed, self._frozen_committed = set(), set()

    def delete(self, key: bytes, old: Any, timestamp: int, headers: Headers | None) -> None:
        """Delete a row whose value was read just now: ``old``."""
        if old is not None and self.hides_expired and key not in self.dirty:
            self._committed.add(key)
        self.put(key, None, timestamp, headers)

    @override
    def freeze(self) -> None:
        super().freeze()
        self._frozen_committed, self._committed = self._committed, set()

    @override
    def batch_written(self) -> None:
        super().batch_written()
        self._frozen_committed = set()

    @override
    def _flush_step(
        self,
        updates: list[EntryRow],
        before: dict[bytes, Entry],
        rows: dict[bytes, bytes | None],
        on_flush: OnFlush | None,
    ) -> None:
        if not self.hides_expired:
            return super()._flush_step(updates, before, rows, on_flush)
        self._in_order, self._hidden = iter(updates), []
        latest = max(self.flushed_time, max(map(self.time_of, map(_KEY, updates))))
        self._shown_from = self.first_visible(latest)
        super()._flush_step(updates, before, rows, on_flush)
        self._flushed_up_to(None)
        for key in self._hidden:
            rows.setdefault(key, None)
        return None

    @override
    def _old_value(self, key: bytes, before: dict[bytes, Entry]) -> Any:
        if self.hides_expired and not self._shows(key):
            self._hidden.append(key)
            return None
        if key in self._frozen_committed and not self._listeners.want_old_values:
            return _SOMETHING
        return super()._old_value(key, before)

    @override
    def _is_on_disk(self, key: bytes) -> bool:
        if self.on_disk_until is not None and self.time_of(key) > self.on_disk_until():
            return False
        return super()._is_on_disk(key)

    def _shows(self, key: bytes) -> bool:
        end = self.time_of(key)
        if end >= self._shown_from:
            return True
        self._flushed_up_to(key)
        shows = end >= self.first_visible(self.flushed_time)
        self.flushed_time = max(self.flushed_time, end)
        return shows

    def _flushed_up_to(self, key: bytes | None) -> None:
        """Take note of the times of the rows before ``key``, or, if that is None, of all that are left. The row of
        ``key`` is taken out, too: its time counts when it has been looked at (:meth:`_shows`)."""
        before = self._in_order if key is None else takewhile(lambda row: row[0] != key, self._in_order)
        self.flushed_time = max(chain((self.flushed_time,), map(self.time_of, map(_KEY, before))))


class SessionHeadersBuffer(SessionBuffer, HeadersBuffer):
    """The write buffer of a session store that keeps headers."""
