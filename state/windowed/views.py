"""Window stores and session stores as a processor sees them: typed keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar, overload

from penstock.common.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class ReadOnlyWindowStore(Protocol[K, V_co]):
    """The read methods of a window store: values by key and start of a window. Mirrors ``ReadOnlyWindowStore``.

    All times are ms since 1970. A window is given by its start; its end follows from the store's window size. Ranges of
    keys are ordered by serialised keys, both ends included, None is open; a range from a key to a smaller one is empty.
    Ranges of time include both ends. Expired rows are not shown: see :class:`WindowStore`.

    **Order.** Rows of one key come by time. Rows of several keys come, in a processor's :class:`WindowStore`, by
    segment, in it by serialised key, then by time; from outside (``KafkaStreams.store``) by serialised key, then by
    time. ``backward_`` methods reverse that.
    """

    name: str

    @overload
    def fetch(self, key: K, time: int) -> V_co | None: ...
    @overload
    def fetch(self, key: K, time_from: int, time_to: int) -> Iterator[tuple[int, V_co]]: ...
    @overload
    def fetch(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def fetch(
        self, *given: object, **named: object
    ) -> V_co | Iterator[tuple[int, V_co]] | Iterator[tuple[Windowed[K], V_co]] | None:
        """``fetch(key, time)``: the value of the window that starts at ``time``, None if there is none.

        ``fetch(key, time_from, time_to)``: window starts and values of ``key``. ``fetch(key_from, key_to, time_from,
        time_to)``: windowed keys and values. In a store that retains duplicates, only the last two forms find
        everything.
        """

    @overload
    def backward_fetch(self, key: K, time_from: int, time_to: int) -> Iterator[tuple[int, V_co]]: ...
    @overload
    def backward_fetch(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def backward_fetch(
        self, *given: object, **named: object
    ) -> Iterator[tuple[int, V_co]] | Iterator[tuple[Windowed[K], V_co]]:
        """``fetch`` of a range, backwards."""

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[K], V_co]]:
        """Returns the windows of all keys that start between the times."""

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[K], V_co]]:
        """Like :meth:`fetch_all`, backwards."""

    def all(self) -> Iterator[tuple[Windowed[K], V_co]]:
        """Returns all windows that have not expired."""

    def backward_all(self) -> Iterator[tuple[Windowed[K], V_co]]:
        """Like :meth:`all`, backwards."""


class WindowStore(ReadOnlyWindowStore[K, V], Protocol[K, V]):
    """A window store as a processor sees it: values by key and start of a window. Mirrors ``WindowStore``.

    **Retention.** The store's *observed stream time* is the largest window start it was ever given, in this run or
    before. No fetch shows a window that starts at or before that time less the retention. A ``put`` so late that its
    *segment* (a span of half the retention, but at least a minute) has expired is dropped, logged, and counted by the
    metric ``dropped-records``; only the changelog still gets it. A ``put`` that is late, but whose segment has not
    expired, is stored, although no fetch will show it.

    Keys may not be None. Iterators see the store as it was when they were made. Until the commit a store holds the
    objects themselves. So an object that it returned, or that was put into it, must not be changed: put a new object
    instead (docs/PROGRAMS.md).
    """

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Set the value of ``key`` in the window that starts at ``window_start``, or with None delete it.

        A store that retains duplicates keeps every value of a window, and ignores None. Raises ValueError for a
        negative start.
        """


class ReadOnlySessionStore(Protocol[K, V_co]):
    """The read methods of a session store: values by key, start and end of a session. Mirrors
    ``ReadOnlySessionStore``.

    All times are ms since 1970; both ends belong to the session. Ranges of keys are ordered by serialised keys, both
    ends included, None is open. Expired sessions are not shown: see :class:`SessionStore`.

    **Order.** Sessions of one key come by end, then start. Those of several keys come, in a processor's
    :class:`SessionStore`, by segment, in it by serialised key, then by end and start; from outside
    (``KafkaStreams.store``) by serialised key, then by end and start. ``backward_`` methods reverse that.
    """

    name: str

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V_co | None:
        """Returns the value of exactly this session, None if there is none."""

    @overload
    def find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    @overload
    def find_sessions(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def find_sessions(self, *given: object, **named: object) -> Iterator[tuple[Windowed[K], V_co]]:
        """Sessions of a key, or of a range of keys, that end at ``earliest_session_end`` or later and start at
        ``latest_session_start`` or earlier."""

    @overload
    def backward_find_sessions(
        self, key: K, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    @overload
    def backward_find_sessions(
        self, key_from: K | None, key_to: K | None, earliest_session_end: int, latest_session_start: int
    ) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def backward_find_sessions(self, *given: object, **named: object) -> Iterator[tuple[Windowed[K], V_co]]:
        """Like :meth:`find_sessions`, backwards."""

    @overload
    def fetch(self, key: K) -> Iterator[tuple[Windowed[K], V_co]]: ...
    @overload
    def fetch(self, key_from: K | None, key_to: K | None) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def fetch(self, *given: object, **named: object) -> Iterator[tuple[Windowed[K], V_co]]:
        """Every session of a key, or of a range of keys."""

    @overload
    def backward_fetch(self, key: K) -> Iterator[tuple[Windowed[K], V_co]]: ...
    @overload
    def backward_fetch(self, key_from: K | None, key_to: K | None) -> Iterator[tuple[Windowed[K], V_co]]: ...
    def backward_fetch(self, *given: object, **named: object) -> Iterator[tuple[Windowed[K], V_co]]:
        """Like :meth:`fetch`, backwards."""


class SessionStore(ReadOnlySessionStore[K, V], Protocol[K, V]):
    """A session store as a processor sees it: values by key, start and end of a session. Mirrors ``SessionStore``.

    **Retention.** As in a :class:`WindowStore`, by the *end* of sessions: a session is shown until the largest end that
    the store was ever given, in ``put`` or ``remove``, is later by the retention.

    Keys may not be None. Iterators see the store as it was when they were made. An object that the store returned, or
    that was put into it, must not be changed (docs/PROGRAMS.md).
    """

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """Set the value of exactly this session, or with None delete it. Sessions that overlap stay as they are.

        Raises ValueError for a session that starts before 0 or after its end.
        """

    def remove(self, session_key: Windowed[K]) -> None:
        """Delete exactly this session."""
