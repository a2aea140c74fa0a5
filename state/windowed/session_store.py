"""Session stores: the store of bytes that engine and operators see, and the typed one that a processor sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.common.windows import LARGEST_TIMESTAMP, Window, Windowed
from penstock.state.builders import HeadersOption
from penstock.state.contracts import CommitBatch, StateStore, StateStoreContext
from penstock.state.entries import EntryForm
from penstock.state.queries import Query, QueryRow, unknown_query
from penstock.state.rows.header_rows import HeaderRows, headers_format
from penstock.state.rows.row_formats import VALUE, Entry, EntryRow
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.times import whole_ms
from penstock.state.windowed.arguments import FETCH_SESSIONS, FIND_SESSIONS, in_places
from penstock.state.windowed.expiring_store import ExpiringStateStore, ExpiringStoreBuilder
from penstock.state.windowed.keys import SessionKeySchema
from penstock.state.windowed.queries import SessionQuery, SessionRangeQuery, WindowedForm
from penstock.state.windowed.row_queries import Place, answered, rows_of_key, rows_of_keys
from penstock.state.windowed.session_buffer import SessionBuffer, SessionHeadersBuffer
from penstock.state.windowed.session_index import SessionIndex
from penstock.state.windowed.views import SessionStore
from penstock.state.with_headers.views import AggregationConverter
from penstock.state.write_buffer.flush_listeners import OnFlush

K = TypeVar("K")
V = TypeVar("V")

_END, _START = "earliest_session_end", "latest_session_start"


@dataclass(frozen=True)
class SessionStoreBuilder(HeadersOption[K, V], ExpiringStoreBuilder[K, V]):
    """A session store; rows are value bytes, preceded by headers if ``headers``. Mirrors ``SessionStoreBuilder``.

    A session is kept for ``retention_ms`` after its end.
    """

    kind: ClassVar[str] = "session"

    @property
    @override
    def schema(self) -> SessionKeySchema:
        return SessionKeySchema()

    @property
    @override
    def entries(self) -> EntryForm:
        return WindowedForm(self.schema)

    @override
    def windowed_key_serde(self, key_serde: Serde[K]) -> Serde[Windowed[K]]:
        return WindowedSerdes.session_windowed_serde_from(key_serde)

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return SessionStateStore(self, context)


class SessionStateStore(ExpiringStateStore):
    """A session store. The time of its rows is the end of their sessions."""

    queries = (SessionQuery, SessionRangeQuery)

    def __init__(self, builder: SessionStoreBuilder[Any, Any], context: StateStoreContext) -> None:
        self._schema = builder.schema
        row_format = headers_format(VALUE, builder.headers, builder.of_dsl)
        buffer_kind = SessionHeadersBuffer if builder.headers else SessionBuffer
        super().__init__(builder, row_format, self._schema, context, buffer_kind)
        self._index: SessionIndex | None = None
        self._headers = builder.headers

    def index(self, gap_ms: int) -> SessionIndex:
        """Returns the index of its sessions, for an aggregate that keeps it up to date and forwards what is flushed."""
        if self._index is None:
            caching, buffer, rows, segments = self.context.caching, self.buffer, self.rows, self.rows.segments
            assert isinstance(buffer, SessionBuffer)
            self._index = SessionIndex(rows, gap_ms, keeps_expired=caching)
            buffer.time_of, buffer.first_visible, buffer.hides_expired = (
                self._schema.time,
                segments.first_visible,
                caching,
            )
            buffer.on_disk_until = lambda: rows.committed_time
        return self._index

    @override
    def view(self) -> TypedSessionStore:
        if isinstance(self.row_format, HeaderRows):
            return TypedSessionStoreWithHeaders(self, self.typed_keys(), self.context)
        return TypedSessionStore(self, self.typed_keys(), self.context.now)

    @override
    def listen(self, on_flush: OnFlush, old_values: bool) -> None:
        super().listen(_without_headers_of(on_flush) if self._headers else on_flush, old_values)

    def put(self, key: bytes, window: Window, value: Any, timestamp: int, headers: Headers | None = None) -> None:
        """Set the value of this very session, or delete it with None. See :meth:`ExpiringRows.put`."""
        self._put(key, window, value, timestamp, headers, counted=True)

    def remove(self, key: bytes, window: Window, timestamp: int, headers: Headers | None = None) -> None:
        """Delete this very session. One that has expired does not exist any more, and is not counted as a dropped
        record."""
        self._put(key, window, None, timestamp, headers, counted=False)

    def _put(
        self, key: bytes, window: Window, value: Any, timestamp: int, headers: Headers | None, counted: bool
    ) -> None:
        if not 0 <= window.start <= window.end <= LARGEST_TIMESTAMP:
            raise ValueError(f"store {self.name}: no session goes from {window.start} to {window.end}")
        if self._index is not None:
            self._index.forget(key)
        self.rows.put(key, self._schema.suffix(window), window.end, value, timestamp, headers, counted)

    def fetch(self, key: bytes, window: Window) -> Entry | None:
        """The entry of this very session; None if there is none or it has expired. One get."""
        if not self.rows.is_visible(window.end) or not 0 <= window.start <= window.end:
            return None
        return self._row(key, window)

    @override
    def entry(self, windowed: Windowed[bytes]) -> Entry | None:
        return self._row(windowed.key, windowed.window) if self.rows.shows_a_table(windowed.window.end) else None

    def _row(self, key: bytes, window: Window) -> Entry | None:
        rows = self.rows
        return rows.buffer.get(rows.row_key(key, self._schema.suffix(window), window.end))

    def find(self, key: bytes, earliest_end: int, latest_start: int, reverse: bool = False) -> Iterator[EntryRow]:
        """The sessions of ``key`` that end at ``earliest_end`` or later and start at ``latest_start`` or earlier."""
        return self._starting(self.rows.of_key(key, earliest_end, LARGEST_TIMESTAMP, reverse), latest_start)

    def find_in_keys(
        self, key_from: bytes | None, key_to: bytes | None, earliest_end: int, latest_start: int, reverse: bool = False
    ) -> Iterator[EntryRow]:
        """Like :meth:`find`, for a range of keys; None is open."""
        rows = self.rows.of_keys(key_from, key_to, earliest_end, LARGEST_TIMESTAMP, reverse)
        return self._starting(rows, latest_start)

    def _starting(self, rows: Iterator[EntryRow], latest_start: int) -> Iterator[EntryRow]:
        window = self._schema.window
        return (row for row in rows if window(row[0]).start <= latest_start)

    # ---- commit and restore ----

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        assert isinstance(self.buffer, SessionBuffer)
        self.buffer.flushed_time = self.rows.flushed_time
        return super().flush(batch)

    @override
    def wiped(self) -> None:
        super().wiped()
        self._forget_index()

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        super().restore(batch, keys, values, timestamps)
        self._forget_index()

    @override
    def restore_with_headers(
        self,
        batch: CommitBatch,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None],
    ) -> None:
        super().restore_with_headers(batch, keys, values, timestamps, headers)
        self._forget_index()

    # ---- memory ----

    @override
    def forget_objects(self) -> None:
        super().forget_objects()
        self._forget_index()

    def _forget_index(self) -> None:
        if self._index is not None:
            self._index.clear()

    @override
    def resident_bytes(self) -> float:
        return super().resident_bytes() + (0 if self._index is None else self._index.resident_bytes())

    @override
    def drop_unused(self) -> bool:
        dropped = super().drop_unused()
        return (self._index is not None and self._index.drop_unused()) or dropped

    # ---- queries ----

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        window = self._schema.window
        match query:
            case SessionQuery() | SessionRangeQuery():
                place, rows = Place(after, committed, query.descending), self.rows
                times, latest_start = (query.earliest_end, LARGEST_TIMESTAMP), query.latest_start
            case _:
                raise unknown_query(query, self.name, self.queries)

        def begins_in_time(row_key: bytes) -> bool:
            return window(row_key).start <= latest_start

        if isinstance(query, SessionQuery):
            found = rows_of_key(rows, query.key, *times, place, begins_in_time)
        else:
            found = rows_of_keys(rows, query.from_key, query.to_key, times, place, begins_in_time)
        return answered(found, self.query_row, limit)


class TypedSessionStore(SessionStore[Any, Any]):
    """Each update has the current record's timestamp."""

    def __init__(self, store: SessionStateStore, keys: TypedKeys, now: Callable[[], int]) -> None:
        self.name = store.name
        self._store = store
        self._keys = keys
        self._now = now

    @override
    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        key, window = self._session(session_key)
        self._store.put(self._keys.written(key), window, aggregate, self._now())

    @override
    def remove(self, session_key: Windowed[Any]) -> None:
        key, window = self._session(session_key)
        self._store.remove(self._keys.serialize(key), window, self._now())

    @override
    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        window = Window(*self._times("session_start", session_start, "session_end", session_end))
        entry = self._store.fetch(self._keys.serialize(key), window)
        return None if entry is None else self._value(entry)

    @override
    def find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(False, in_places("find_sessions", FIND_SESSIONS, given, named))

    @override
    def backward_find_sessions(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(True, in_places("backward_find_sessions", FIND_SESSIONS, given, named))

    @override
    def fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(False, (*in_places("fetch", FETCH_SESSIONS, given, named), 0, LARGEST_TIMESTAMP))

    @override
    def backward_fetch(self, *given: Any, **named: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._find(True, (*in_places("backward_fetch", FETCH_SESSIONS, given, named), 0, LARGEST_TIMESTAMP))

    def _find(self, reverse: bool, arguments: tuple[Any, ...]) -> Iterator[tuple[Windowed[Any], Any]]:
        *keys, end, start = arguments
        end, start = self._times(_END, end, _START, start)
        if len(keys) == 1:
            return map(self._windowed, self._store.find(self._keys.serialize(keys[0]), end, start, reverse))
        bounds = self._keys.bound(keys[0]), self._keys.bound(keys[1])
        return map(self._windowed, self._store.find_in_keys(*bounds, end, start, reverse))

    def _session(self, session_key: Windowed[Any]) -> tuple[Any, Window]:
        if not isinstance(session_key, Windowed) or not isinstance(session_key.window, Window):
            raise TypeError(
                f"store {self.name}: a session key is Windowed(key, Window(start, end)), not {session_key!r}"
            )
        start, end = session_key.window
        if type(start) is int and type(end) is int:
            return session_key
        return session_key.key, Window(*self._times("the session's start", start, "its end", end))

    def _times(self, first: str, one: object, second: str, other: object) -> tuple[int, int]:
        return whole_ms(self.name, first, one), whole_ms(self.name, second, other)

    def _windowed(self, row: EntryRow) -> tuple[Windowed[Any], Any]:
        rows = self._store.rows
        return Windowed(self._keys.deserialize(rows.key(row[0])), rows.schema.window(row[0])), self._value(row[1])

    def _value(self, entry: Entry) -> Any:
        return entry[0]


class TypedSessionStoreWithHeaders(TypedSessionStore):
    """The values are :class:`AggregationWithHeaders`."""

    def __init__(self, store: SessionStateStore, keys: TypedKeys, context: StateStoreContext) -> None:
        super().__init__(store, keys, context.now)
        self._values = AggregationConverter(store.name, store.row_format, context)

    @override
    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        key, window = self._session(session_key)
        plain, timestamp, headers = self._values.taken(aggregate)
        self._store.put(self._keys.written(key), window, plain, timestamp, headers)

    @override
    def remove(self, session_key: Windowed[Any]) -> None:
        key, window = self._session(session_key)
        _, timestamp, headers = self._values.taken(None)
        self._store.remove(self._keys.serialize(key), window, timestamp, headers)

    @override
    def _value(self, entry: Entry) -> Any:
        return self._values.given(entry)


def _without_headers_of(listener: OnFlush) -> OnFlush:
    """Returns a listener that passes no headers to ``listener``, as in Kafka Streams: what the cache of such a store
    forwards has the headers of its row, which has none."""

    def run(key: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        listener(key, new, old, timestamp, None)

    return run
