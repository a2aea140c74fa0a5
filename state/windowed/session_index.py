"""Which sessions the keys have that records came for lately: so a record finds those it belongs to without a scan."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from itertools import islice

from penstock.state.windowed.expiring_rows import ExpiringRows

Session = tuple[int, int, bytes]
"""(end, start, key of the row). Those of one key are in this order."""

_KEY_BYTES, _SESSION_BYTES = 250, 250
"""About what a key, and each of its sessions, takes in the process."""
_SAMPLED = 32
_PRUNED = 8
"""A key that has so many sessions is freed of those that have expired whenever it gets another."""


class SessionIndex:
    """The sessions of ``rows`` by key, as lists that whoever changes the rows keeps up.

    ``of`` has the lists of the keys that were used lately; :meth:`load` makes one for another key. ``keeps_expired``:
    what has expired counts until its segment is deleted, unless it lies in a session that does not: that has taken its
    place without a word to the changelog (see :meth:`ExpiringRows.hide_expired`).
    """

    def __init__(self, rows: ExpiringRows, *, keeps_expired: bool) -> None:
        self._rows = rows
        self._keeps_expired = keeps_expired
        self.of: dict[bytes, list[Session]] = {}
        self._older: dict[bytes, list[Session]] = {}

    def first_end(self) -> int:
        """The end of the oldest session that counts."""
        rows = self._rows
        if self._keeps_expired:
            return rows.segments.first_live(rows.expiry_time) * rows.segments.interval_ms
        return rows.segments.first_visible(rows.expiry_time)

    def load(self, key: bytes) -> list[Session]:
        """The sessions of a key that is not in ``of``; from now on it is."""
        sessions = self._older.pop(key, None)
        if sessions is None:
            sessions = self._read(key)
        self.of[key] = sessions
        return sessions

    def _read(self, key: bytes) -> list[Session]:
        rows, first_end = self._rows, self.first_end()
        found: list[Session] = []
        for row_key, _ in rows.of_key(key, first_end, rows.stream_time, expired_too=True):
            start, end = rows.schema.window(row_key)
            found.append((end, start, row_key))
        return _without_replaced(found, rows.segments.first_visible(rows.expiry_time))

    def replace(self, sessions: list[Session], gone: Sequence[Session], new: Session | None) -> None:
        """Take ``gone`` out of the ``sessions`` of a key and put ``new`` there."""
        if new is not None and len(gone) == 1 and gone[0] is sessions[-1]:
            sessions[-1] = new
            return
        for session in gone:
            sessions.remove(session)
        if new is None:
            return
        if len(sessions) >= _PRUNED:
            first_end = self.first_end()
            sessions[:] = [session for session in sessions if session[0] >= first_end]
        insort(sessions, new)

    def forget(self, key: bytes) -> None:
        """The rows of ``key`` were changed by somebody who does not keep its list up."""
        self.of.pop(key, None)
        self._older.pop(key, None)

    def clear(self) -> None:
        """The rows were changed as a whole."""
        self.of.clear()
        self._older.clear()

    def drop_unused(self) -> bool:
        """Let go of the keys that were not used since the last call; False when there is none at all."""
        if not self.of and not self._older:
            return False
        self._older = self.of.copy()
        self.of.clear()
        return True

    def resident_bytes(self) -> float:
        """About what it takes in the process."""
        keys = len(self.of) + len(self._older)
        if not keys:
            return 0.0
        sampled = [len(sessions) for sessions in islice((self.of or self._older).values(), _SAMPLED)]
        return keys * (_KEY_BYTES + _SESSION_BYTES * sum(sampled) / len(sampled))


def near(sessions: list[Session], earliest_end: int, latest_start: int) -> list[Session]:
    """Of ``sessions`` those that end at ``earliest_end`` or later and start at ``latest_start`` or earlier."""
    found: list[Session] = []
    for session in reversed(sessions):
        if session[0] < earliest_end:
            break
        if session[1] <= latest_start:
            found.append(session)
    found.reverse()
    return found


def _without_replaced(sessions: list[Session], first_visible: int) -> list[Session]:
    """``sessions`` without those that expired before they became part of a longer one, which holds their records."""
    if not sessions or sessions[0][0] >= first_visible:
        return sessions
    kept: list[Session] = []
    earliest_start: int | None = None
    for session in reversed(sessions):
        end, start, _ = session
        if end >= first_visible or earliest_start is None or start < earliest_start:
            kept.append(session)
            earliest_start = start if earliest_start is None else min(start, earliest_start)
    kept.reverse()
    return kept
