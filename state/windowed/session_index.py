"""The sessions of keys that had records lately. With them, a record finds the sessions that it belongs to without a
scan."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.state.windowed.expiring_rows import ExpiringRows
from penstock.state.windowed.recent_sessions import Session, SessionLists

PRUNED = 8
"""A key with this many sessions loses those that have expired whenever it gets another."""
_LONG = 4
"""Aging also prunes the lists if they were last aged more than this many times as long ago as records look back."""
_KEPT_BYTES = 16 << 20
"""Bytes that it may hold in addition to the budget, as the windows of joins do: a key whose list is gone costs its next
record a scan of the rows, which takes ten times as long as to process it (docs/decisions/0022-full-caches.md)."""


class SessionIndex:
    """The sessions of ``rows`` by key, in the order of their ends: ``lists``, which callers update if they change rows.

    The latest part of time is known completely, so that most records of keys that have no session there need not read
    the rows. A record with an earlier time causes more to be loaded.

    ``gap_ms``: how far from its time a record looks for sessions. ``keeps_expired``: what has expired counts until its
    segment is deleted, unless it lies in a session that ends later: that has replaced it without a record in the
    changelog (see :class:`~penstock.state.windowed.session_buffer.SessionBuffer`).
    """

    def __init__(self, rows: ExpiringRows, gap_ms: int, *, keeps_expired: bool) -> None:
        self._rows = rows
        self._gap_ms = gap_ms
        self._retention_ms = rows.segments.retention_ms
        self._keeps_expired = keeps_expired
        self.lists = SessionLists(gap_ms, rows.stream_time)
        self._aged_at = rows.stream_time
        """The stream time when the lists were last aged."""

    def first_end(self) -> int:
        """The end of the oldest session that counts."""
        rows = self._rows
        if self._keeps_expired:
            return rows.segments.first_live(rows.expiry_time) * rows.segments.interval_ms
        return rows.segments.first_visible(rows.expiry_time)

    def load(self, key: bytes, time: int) -> Sequence[Session]:
        """Returns the sessions of a key near a record of ``time``, from the rows, as its list does not have them."""
        earliest_end = max(0, time - self._gap_ms)
        self.lists.loaded(key, earliest_end - 1, self._read(key, earliest_end))
        found = self.lists.find(key, time)
        assert found is not None
        return found

    def _read(self, key: bytes, earliest_end: int) -> list[Session]:
        rows, found = self._rows, list[Session]()
        earliest_end = max(earliest_end, self.first_end())
        for row_key, _ in rows.of_key(key, earliest_end, rows.stream_time, expired_too=True):
            start, end = rows.schema.window(row_key)
            found.append((end, start))
        return _without_replaced(found, rows.segments.first_visible(rows.expiry_time))

    def without_expired(self, found: Sequence[Session]) -> Sequence[Session]:
        """Returns ``found`` without the sessions that have expired and no longer count."""
        if found[0][0] > self._rows.expiry_time - self._retention_ms:
            return found  # all are still shown, and what is shown counts
        first_end = self.first_end()
        return found if found[0][0] >= first_end else [session for session in found if session[0] >= first_end]

    def replace(self, key: bytes, gone: Sequence[Session], new: Session | None) -> None:
        """Remove ``gone`` from the list of a key and put ``new`` there, if any."""
        if new is None:
            self.lists.remove(key, gone)
        elif self.lists.replace(key, gone, *new) >= PRUNED:
            self.prune(key)

    def prune(self, key: bytes) -> None:
        """Drop the sessions of a key that have expired and no longer count."""
        self.lists.drop_until(key, self.first_end() - 1)

    def forget(self, key: bytes) -> None:
        """Forget the list of ``key``, whose rows were changed by a caller that does not update it."""
        self.lists.forget(key)

    def clear(self) -> None:
        """Forget all lists: the rows were changed as a whole."""
        self._aged_at = self._rows.stream_time
        self.lists.clear(self._aged_at)

    def drop_unused(self) -> bool:
        """Drop the sessions that are least likely to be needed. Returns False if there is nothing to drop.

        Those are the ones that ended so much earlier in stream time that records in order do not look for them; if that
        is too little, the keys that were not used since the last call.
        """
        stream_time, needed_ms = self._rows.stream_time, self._gap_ms * 5 // 4
        known_ms, not_needed = stream_time - self._aged_at, max(stream_time - needed_ms, -1)
        if known_ms <= needed_ms:
            if not self.resident_bytes():
                return False
            self.lists.forget_until(not_needed)
            if not self.resident_bytes():
                return True
        # A key whose list was not used since then has got no session since then, either.
        self.lists.age(self._aged_at)
        self._aged_at = stream_time
        if known_ms > _LONG * needed_ms:
            self.lists.forget_until(not_needed)
        return True

    def resident_bytes(self) -> float:
        """Estimates how many bytes it takes of the memory budget: those beyond what it may take in addition."""
        return max(0.0, self.lists.resident_bytes() - _KEPT_BYTES)


def _without_replaced(sessions: list[Session], first_visible: int) -> list[Session]:
    """``sessions`` without those that expired before they became part of a longer one, which holds their records."""
    if not sessions or sessions[0][0] >= first_visible:
        return sessions
    kept: list[Session] = []
    earliest_start: int | None = None
    for session in reversed(sessions):
        end, start = session
        if end >= first_visible or earliest_start is None or start < earliest_start:
            kept.append(session)
            earliest_start = start if earliest_start is None else min(start, earliest_start)
    kept.reverse()
    return kept
