"""Which sessions the keys have that records came for lately: so a record finds those it belongs to without a scan."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice

from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.windowed.expiring_rows import ExpiringRows

Session = tuple[int, int]
"""(end, start)"""

_KEY_BYTES, _SESSION_BYTES = 230, 130
"""About what a key, and each of its sessions, takes in the process."""
_SAMPLED = 32
_PRUNED = 8
"""A key that has so many sessions is freed of those that have expired whenever it gets another."""
_LONG = 4
"""So many times what records in order look at."""
_KEPT_BYTES = 4 << 20
"""What memory is short for does not cost the sessions that the next records will ask for, if they take no more."""


class SessionIndex:
    """The sessions of ``rows`` by key, in the order of their ends, in lists that whoever changes the rows keeps up.

    It knows the latest part of time whole, so that most records of keys that have no session there need not ask the
    rows. A list begins with a mark: it has all sessions of its key whose end is later. A key without a list has none
    whose end is later than the mark ``_of_others``. Whoever comes with an earlier time has more loaded.

    ``gap_ms``: so far from its time a record looks for sessions. ``keeps_expired``: what has expired counts until its
    segment is deleted, unless it lies in a session that does not: that has taken its place without a word to the
    changelog (see :class:`~penstock.state.windowed.session_buffer.SessionBuffer`).
    """

    def __init__(self, rows: ExpiringRows, gap_ms: int, *, keeps_expired: bool) -> None:
        self._rows = rows
        self._gap_ms = gap_ms
        self._keeps_expired = keeps_expired
        self.of: dict[bytes, list[Session]] = {}
        self._older: dict[bytes, list[Session]] = {}
        self._of_others = _mark(rows.stream_time)
        self._aged_at = rows.stream_time
        """The stream time when what is ``_older`` was last used."""

    def first_end(self) -> int:
        """The end of the oldest session that counts."""
        rows = self._rows
        if self._keeps_expired:
            return rows.segments.first_live(rows.expiry_time) * rows.segments.interval_ms
        return rows.segments.first_visible(rows.expiry_time)

    def load(self, key: bytes, earliest_end: int) -> list[Session]:
        """The list of a key, with all of its sessions that end at ``earliest_end`` or later; from now on in ``of``."""
        sessions = self.of.get(key)
        if sessions is None and (sessions := self._older.pop(key, None)) is not None:
            _forget(sessions, self._of_others)
        if sessions is None and self._of_others[0] < earliest_end:
            sessions = [self._of_others]
        elif sessions is None or sessions[0][0] >= earliest_end:
            sessions = [_mark(earliest_end - 1), *self._read(key, earliest_end)]
        self.of[key] = sessions
        return sessions

    def _read(self, key: bytes, earliest_end: int) -> list[Session]:
        rows, found = self._rows, list[Session]()
        earliest_end = max(earliest_end, self.first_end())
        for row_key, _ in rows.of_key(key, earliest_end, rows.stream_time, expired_too=True):
            start, end = rows.schema.window(row_key)
            found.append((end, start))
        return _without_replaced(found, rows.segments.first_visible(rows.expiry_time))

    def replace(self, sessions: list[Session], gone: Sequence[Session], new: Session | None) -> None:
        """Take ``gone`` out of the list of a key and put ``new`` there."""
        if new is not None and len(gone) == 1 and gone[0] is sessions[-1]:
            sessions[-1] = new
            return
        for session in gone:
            sessions.remove(session)
        if new is not None:
            self.add(sessions, new)

    def add(self, sessions: list[Session], new: Session) -> None:
        """Put ``new`` into the list of a key."""
        if len(sessions) > _PRUNED and sessions[1][0] < (first_end := self.first_end()):
            del sessions[1 : bisect_left(sessions, (first_end, -1), lo=1)]
        if sessions[-1] < new:
            sessions.append(new)
        else:
            insort(sessions, new, lo=1)

    def forget(self, key: bytes) -> None:
        """The rows of ``key`` were changed by somebody who does not keep its list up."""
        self._older.pop(key, None)
        self.of[key] = [_mark(LARGEST_TIMESTAMP)]

    def clear(self) -> None:
        """The rows were changed as a whole."""
        self.of.clear()
        self._older.clear()
        self._of_others = _mark(self._rows.stream_time)
        self._aged_at = self._rows.stream_time

    def drop_unused(self) -> bool:
        """Let go of what is the least likely to be asked for; False when there is nothing to let go of.

        That is the keys that were not used since the last call but one that came so much earlier in stream time that
        records in order look for nothing of theirs; where that frees too little, since the last call.
        """
        stream_time, needed_ms = self._rows.stream_time, self._gap_ms * 5 // 4
        known_ms = stream_time - self._aged_at
        if known_ms <= needed_ms and self.resident_bytes() <= _KEPT_BYTES:
            return False
        # Whoever has not been asked for since then has not got a session since then, either.
        self._of_others = max(self._of_others, _mark(self._aged_at))
        self._older = self.of.copy()
        self.of.clear()
        self._aged_at = stream_time
        if known_ms > _LONG * needed_ms:
            self._forget_until(stream_time - needed_ms)
        return True

    def _forget_until(self, time: int) -> None:
        """Forget the sessions that end at ``time`` or earlier. It looks at each key: nothing to be done often."""
        mark, kept = _mark(time), dict[bytes, list[Session]]()
        for key, sessions in self._older.items():
            if sessions[-1][0] > time:
                _forget(sessions, mark)
                kept[key] = sessions
        self._older = kept
        self._of_others = max(self._of_others, mark)

    def resident_bytes(self) -> float:
        """About what it takes in the process."""
        keys = len(self.of) + len(self._older)
        if not keys:
            return 0.0
        sampled = [len(sessions) - 1 for sessions in islice((self.of or self._older).values(), _SAMPLED)]
        return keys * (_KEY_BYTES + _SESSION_BYTES * sum(sampled) / len(sampled))


def near(sessions: list[Session], earliest_end: int, latest_start: int) -> list[Session]:
    """Of a list those that end at ``earliest_end``, which is later than its mark, or later, and start at
    ``latest_start`` or earlier."""
    end, start = sessions[-1]
    if end < earliest_end:
        return []
    if start <= latest_start and sessions[-2][0] < earliest_end:
        return sessions[-1:]
    found: list[Session] = []
    for session in reversed(sessions):
        if session[0] < earliest_end:
            break
        if session[1] <= latest_start:
            found.append(session)
    found.reverse()
    return found


def _forget(sessions: list[Session], mark: Session) -> None:
    """Forget the sessions of a list that end at the time of ``mark`` or earlier."""
    if sessions[0] < mark:
        sessions[: bisect_left(sessions, (mark[0] + 1, -1))] = [mark]


def _mark(time: int) -> Session:
    return time, time


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
