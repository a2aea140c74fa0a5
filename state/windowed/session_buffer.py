"""The write buffer of a session store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from typing_extensions import override

from penstock.state.row_formats import Entry, EntryRow
from penstock.state.windowed.segments import NOTHING_OBSERVED
from penstock.state.write_buffer import OnFlush, WriteBuffer


class SessionBuffer(WriteBuffer):
    """Once somebody listens to its flush, a row that has expired by then is told to nobody as an old value, and its
    deletion neither to them nor to the changelog. So it is in Kafka Streams (``CachingSessionStore``): what had expired
    is the old value that its store does not find.

    The observed stream time of a row is the latest end among those that are flushed before it.
    """

    time_of: Callable[[bytes], int]
    """The end of the session in a row's key."""
    first_visible: Callable[[int], int]
    """The first end that has not expired at a stream time."""
    flushed_time = NOTHING_OBSERVED
    """The observed stream time of what is flushed."""

    _in_order: Iterator[EntryRow] = iter(())
    _hidden: list[bytes]

    @override
    def _flush_step(
        self,
        updates: list[EntryRow],
        before: dict[bytes, Entry],
        rows: dict[bytes, bytes | None],
        on_flush: OnFlush | None,
    ) -> None:
        if on_flush is None:
            return super()._flush_step(updates, before, rows, on_flush)
        self._in_order, self._hidden = iter(updates), []
        super()._flush_step(updates, before, rows, on_flush)
        self._flushed_up_to(None)
        for key in self._hidden:
            rows.setdefault(key, None)
        return None

    @override
    def _old_value(self, key: bytes, before: dict[bytes, Entry]) -> Any:
        if self._listeners and not self._shows(key):
            self._hidden.append(key)
            return None
        return super()._old_value(key, before)

    def _shows(self, key: bytes) -> bool:
        self._flushed_up_to(key)
        end = self.time_of(key)
        shows = end >= self.first_visible(self.flushed_time)
        self.flushed_time = max(self.flushed_time, end)
        return shows

    def _flushed_up_to(self, key: bytes | None) -> None:
        """Take note of the times of the rows before ``key``; of all that are left without one."""
        time_of, latest = self.time_of, self.flushed_time
        for flushed, _ in self._in_order:
            if flushed == key:
                break
            latest = max(latest, time_of(flushed))
        self.flushed_time = latest
