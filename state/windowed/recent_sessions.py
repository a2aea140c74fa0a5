"""The sessions of keys, as lists in memory: what is known of them, and when it was last used.

Each record looks for the sessions near it, and nearly each changes one: so ``session_lists.pyx`` has the same,
compiled; if that could not be built, the class below is used.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import islice

from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.windowed.keys import end_and_start
from penstock.state.windowed.segments import pack_segment

Session = tuple[int, int]
"""(end, start)"""

_KEY_BYTES, _SESSION_BYTES = 230, 130
"""Approximate bytes that a key, and each of its sessions, takes in the process."""
_SAMPLED = 32


class _SessionLists:
    """The sessions of keys, each list in the order of their ends, for records that look for them up to ``gap_ms`` away.

    A list begins with a mark: it has all sessions of its key whose end is later. A key without a list has none
    whose end is later than the mark of the others, which is ``time`` to begin with. There are two generations of lists:
    those that were used since :meth:`age`, and the older ones.
    """

    def __init__(self, gap_ms: int, time: int) -> None:
        self._gap_ms = gap_ms
        self._of: dict[bytes, list[Session]] = {}
        self._older: dict[bytes, list[Session]] = {}
        self._of_others = _mark(time)

    def find(self, key: bytes, time: int) -> Sequence[Session] | None:
        """Returns the sessions of ``key`` near a record of ``time``; None if they are not known, and must be
        :meth:`loaded`. If they are known, the key has a list from now on."""
        earliest_end = max(0, time - self._gap_ms)
        sessions = self._known(key)
        if sessions is None:
            if self._of_others[0] >= earliest_end:
                return None
            self._of[key] = [self._of_others]
            return ()
        if sessions[0][0] >= earliest_end:
            return None
        if sessions[-1][0] < earliest_end:
            return ()
        latest_start = time + self._gap_ms
        first = bisect_left(sessions, (earliest_end, -1), lo=1)
        return [session for session in sessions[first:] if session[1] <= latest_start]

    def _known(self, key: bytes) -> list[Session] | None:
        sessions = self._of.get(key)
        if sessions is None and self._older and (sessions := self._older.pop(key, None)) is not None:
            _drop_until(sessions, self._of_others)
            self._of[key] = sessions
        return sessions

    def loaded(self, key: bytes, mark: int, sessions: Iterable[Session]) -> None:
        """Make a list of ``sessions``, which are all of ``key`` whose end is later than ``mark``."""
        self.forget(key, mark)
        self._of[key] += sessions

    def add(self, key: bytes, end: int, start: int) -> int:
        """Put a session into the list of a key that has a list. Returns the number of sessions in it."""
        sessions = self._of[key]
        insort(sessions, (end, start), lo=1)
        return len(sessions) - 1

    def replace(self, key: bytes, gone: Iterable[Session], end: int, start: int) -> int:
        """Like :meth:`add`, with ``gone`` removed before."""
        self.remove(key, gone)
        return self.add(key, end, start)

    def remove(self, key: bytes, gone: Iterable[Session]) -> object:
        """Remove ``gone`` from the list of a key that has a list."""
        sessions = self._of[key]
        for session in gone:
            del sessions[sessions.index(session, 1)]
        return sessions

    def drop_until(self, key: bytes, time: int) -> None:
        """Drop the sessions of a list that end at ``time`` or earlier: no record will look for them."""
        sessions = self._of[key]
        del sessions[1 : bisect_left(sessions, (time + 1, -1), lo=1)]

    def forget(self, key: bytes, mark: int = LARGEST_TIMESTAMP) -> None:
        """Forget the list of ``key``: nothing is known of its sessions that end at ``mark`` or earlier."""
        self._older.pop(key, None)
        self._of[key] = [_mark(mark)]

    def clear(self, time: int) -> None:
        """Forget all lists: nothing is known of sessions that end at ``time`` or earlier, of any key."""
        self._of, self._older = {}, {}
        self._of_others = _mark(time)

    def age(self, time: int) -> None:
        """Drop the older lists, whose sessions end at ``time`` or earlier; those that were used are the older ones
        now."""
        self._of_others = max(self._of_others, _mark(time))
        self._older, self._of = self._of, {}

    def forget_until(self, time: int) -> None:
        """Drop the sessions of the older lists that end at ``time`` or earlier. It looks at each of these lists."""
        mark, kept = _mark(time), dict[bytes, list[Session]]()
        for key, sessions in self._older.items():
            _drop_until(sessions, mark)
            if len(sessions) > 1 or sessions[0] > mark:
                kept[key] = sessions
        self._older = kept
        self._of_others = max(self._of_others, mark)

    def resident_bytes(self) -> float:
        """Estimates how many bytes the lists take in the process."""
        keys = len(self._of) + len(self._older)
        if not keys:
            return 0.0
        sampled = [len(sessions) - 1 for sessions in islice((self._of or self._older).values(), _SAMPLED)]
        return keys * (_KEY_BYTES + _SESSION_BYTES * sum(sampled) / len(sampled))


def _session_row(key: bytes, end: int, start: int, interval_ms: int) -> bytes:
    """Returns the row key of the session with this end and start, in segments of ``interval_ms``."""
    return pack_segment(end // interval_ms) + key + end_and_start(end, start)


def _mark(time: int) -> Session:
    return time, time


def _drop_until(sessions: list[Session], mark: Session) -> None:
    if sessions[0] < mark:
        sessions[: bisect_left(sessions, (mark[0] + 1, -1))] = [mark]


try:
    from penstock.state.windowed.session_lists import SessionLists as SessionLists
    from penstock.state.windowed.session_lists import session_row as session_row
except ImportError:  # it could not be compiled here
    SessionLists = _SessionLists  # type: ignore[misc]  # with the same methods
    session_row = _session_row
