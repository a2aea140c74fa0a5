"""Views of state stores, typed by kind, which ``KafkaStreams.store`` returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic

from typing_extensions import TypeVar, override

from penstock.cluster.queries.store_reader import StoreQuestions
from penstock.cluster.read_side import (
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    RowsQuery,
    SessionQuery,
    SessionRangeQuery,
    StoreEntry,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
    ends_before_it_begins,
)
from penstock.common.errors import SerializationError
from penstock.common.log import logger
from penstock.common.shown import shown_with_type
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.times import whole_ms
from penstock.state.versioned.views import VersionedRecord
from penstock.state.views import ValueAndTimestamp
from penstock.state.windowed.arguments import BACKWARD_FETCH, FETCH, FETCH_SESSIONS, FIND_SESSIONS, in_places
from penstock.state.windowed.views import ReadOnlySessionStore, ReadOnlyWindowStore

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class _View:
    def __init__(self, questions: StoreQuestions, timestamped: bool = False) -> None:
        self.name = questions.name
        self._questions = questions
        self._timestamped = timestamped

    def _value(self, entry: StoreEntry) -> Any:
        if self._timestamped and entry.timestamp is not None:
            return ValueAndTimestamp(entry.value, entry.timestamp)
        return entry.value

    def _warn_of_order(self, from_key: Any, to_key: Any) -> None:
        if from_key is None or to_key is None:
            return
        serde = self._questions.run(lambda side, _: side.key_serde(self.name))
        try:
            empty = ends_before_it_begins(serde, from_key, to_key)
        except SerializationError:  # the query that follows raises it again, with the store's name
            return
        if empty:
            logger(__name__).warning(
                "the range is empty: it ends before it begins in the order of the serialised keys, in which negative "
                "integers come last",
                store=self.name,
                from_key=from_key,
                to_key=to_key,
            )


class ReadOnlyKeyValueStore(_View, Generic[K, V]):
    """All tasks' parts of one key-value store, read over actor calls. Mirrors ``ReadOnlyKeyValueStore``.

    Every call may raise UnknownStateStoreError, TaskNotReadyError (a task restores or moves: try again),
    NotUpToBoundError (the store has not reached the demanded position) or ApplicationStateError (the
    application does not run, or was closed). Answers include changes that are not committed yet. Ranges are ordered by
    serialised key, both ends included, None is open; they are fetched page by page, not at one moment.
    """

    def get(self, key: K) -> V | None:
        """Returns the value of ``key``; None when absent."""
        entry = self._questions.find_row(KeyQuery(key))
        value: V | None = None if entry is None else self._value(entry)
        return value

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Returns the values of those ``keys`` that exist, by few calls to each actor. They are read one after the
        other, not at one moment. Raises TypeError for one key, a text or bytes, in place of several."""
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"get_many takes several keys, not {shown_with_type(keys)}: write [{keys!r}]")
        asked = list(keys)
        entries = self._questions.run(lambda side, reading: side.get_many(self.name, asked, reading))
        return {entry.key: self._value(entry) for entry in entries if entry is not None}

    def range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V]]:
        """Returns the entries from ``from_key`` to ``to_key``.

        The order is that of the keys' bytes, in which negative integers come after all others. If ``from_key`` comes
        after ``to_key`` in this order, there are no entries, and a warning is logged, as in Kafka Streams.
        """
        self._warn_of_order(from_key, to_key)
        return self._rows(RangeQuery(from_key, to_key))

    def reverse_range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V]]:
        """Like :meth:`range`, backwards."""
        self._warn_of_order(from_key, to_key)
        return self._rows(RangeQuery(from_key, to_key, descending=True))

    def all(self) -> Iterator[tuple[K, V]]:
        """Returns every entry."""
        return self._rows(RangeQuery())

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Returns every entry, backwards."""
        return self._rows(RangeQuery(descending=True))

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """Returns the entries whose serialised key begins with ``prefix``."""
        return self._rows(PrefixQuery(prefix))

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of entries, all tasks together."""
        return self._questions.run(lambda side, reading: side.approximate_num_entries(self.name, reading))

    def _rows(self, query: RowsQuery) -> Iterator[tuple[K, V]]:
        return ((entry.key, self._value(entry)) for entry in self._questions.rows(query))


class WindowStoreView(_View, ReadOnlyWindowStore[Any, Any]):
    """A window store, read over actor calls."""

    @override
    def fetch(self, *given: Any, **named: Any) -> Any:
        arguments = in_places("fetch", FETCH, given, named)
        if len(arguments) > 2:
            return self._fetch(arguments, False)
        time = whole_ms(self.name, "time", arguments[1])
        # If there are duplicates, the last one that was put counts.
        found = next(self._questions.rows(WindowKeyQuery(arguments[0], time, time, descending=True)), None)
        return None if found is None else self._value(found)

    @override
    def backward_fetch(self, *given: Any, **named: Any) -> Any:
        return self._fetch(in_places("backward_fetch", BACKWARD_FETCH, given, named), True)

    def _fetch(self, arguments: tuple[Any, ...], descending: bool) -> Iterator[tuple[Any, Any]]:
        if len(arguments) == 4:
            return self._windowed(*arguments, descending)
        key, time_from, time_to = arguments
        query = WindowKeyQuery(key, *self._times(time_from, time_to), descending=descending)
        return ((entry.window.start, self._value(entry)) for entry in self._rows(query))

    @override
    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._windowed(None, None, time_from, time_to, False)

    @override
    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._windowed(None, None, time_from, time_to, True)

    @override
    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._windowed(None, None, 0, LARGEST_TIMESTAMP, False)

    @override
    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._windowed(None, None, 0, LARGEST_TIMESTAMP, True)

    def _windowed(
        self, from_key: Any, to_key: Any, time_from: int, time_to: int, descending: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        self._warn_of_order(from_key, to_key)
        query = WindowRangeQuery(*self._times(time_from, time_to), from_key, to_key, descending=descending)
        return ((Windowed(entry.key, entry.window), self._value(entry)) for entry in self._rows(query))

    def _times(self, time_from: object, time_to: object) -> tuple[int, int]:
        return whole_ms(self.name, "time_from", time_from), whole_ms(self.name, "time_to", time_to)

    def _rows(self, query: RowsQuery) -> Iterator[Any]:
        return self._questions.rows(query)


class SessionStoreView(_View, ReadOnlySessionStore[Any, Any]):
    """A session store, read over actor calls."""

    @override
    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        start = whole_ms(self.name, "session_start", session_start)
        end = whole_ms(self.name, "session_end", session_end)
        for entry in self._rows(SessionQuery(key, end, start)):
            if entry.window == (start, end):
                return entry.value
            if entry.window.end > end:
                break
        return None

    @override
    def find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(in_places("find_sessions", FIND_SESSIONS, given, named), False)

    @override
    def backward_find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(in_places("backward_find_sessions", FIND_SESSIONS, given, named), True)

    @override
    def fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find((*in_places("fetch", FETCH_SESSIONS, given, named), 0, LARGEST_TIMESTAMP), False)

    @override
    def backward_fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find((*in_places("backward_fetch", FETCH_SESSIONS, given, named), 0, LARGEST_TIMESTAMP), True)

    def _find(self, arguments: tuple[Any, ...], descending: bool) -> Iterator[tuple[Windowed[Any], Any]]:
        *keys, end, start = arguments
        times = whole_ms(self.name, "earliest_session_end", end), whole_ms(self.name, "latest_session_start", start)
        if len(keys) == 1:
            query: RowsQuery = SessionQuery(keys[0], *times, descending=descending)
        else:
            self._warn_of_order(*keys)
            query = SessionRangeQuery(*times, *keys, descending=descending)
        return ((Windowed(entry.key, entry.window), entry.value) for entry in self._rows(query))

    def _rows(self, query: RowsQuery) -> Iterator[Any]:
        return self._questions.rows(query)


class ReadOnlyVersionedKeyValueStore(_View, Generic[K, V]):
    """A versioned store, read over actor calls. Kafka Streams has its two questions as ``VersionedKeyQuery`` and
    ``MultiVersionedKeyQuery`` (KIP-960, KIP-968). Times are ms since 1970; errors as of :class:`ReadOnlyKeyValueStore`.
    """

    def get(self, key: K, as_of_timestamp: int | None = None) -> VersionedRecord[V] | None:
        """Returns the latest version of ``key``, or the one that was valid at ``as_of_timestamp``; None if there was
        none, or if that time is before the history that is kept."""
        if as_of_timestamp is not None:
            as_of_timestamp = whole_ms(self.name, "as_of_timestamp", as_of_timestamp)
        entry: Any = self._questions.find_row(VersionedKeyQuery(key, as_of_timestamp))
        return None if entry is None else VersionedRecord(entry.value, entry.timestamp, entry.valid_to)

    def history(
        self, key: K, time_from: int = 0, time_to: int = LARGEST_TIMESTAMP, *, descending: bool = False
    ) -> Iterator[VersionedRecord[V]]:
        """Returns the versions of ``key`` that were valid at any time from ``time_from`` to ``time_to``, both included,
        as far as history is kept: by time, or backwards."""
        times = whole_ms(self.name, "time_from", time_from), whole_ms(self.name, "time_to", time_to)
        rows: Iterator[Any] = self._questions.rows(MultiVersionedKeyQuery(key, *times, descending=descending))
        return (VersionedRecord(row.value, row.timestamp, row.valid_to) for row in rows)
