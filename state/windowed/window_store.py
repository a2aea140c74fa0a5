"""Window stores: the store of bytes that engine and operators see, and the typed one that a processor sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from typing_extensions import override

from penstock.common.log import logger
from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.builders import HeadersOption
from penstock.state.contracts import ChangelogRow, StateStore, StateStoreContext
from penstock.state.entries import EntryForm
from penstock.state.queries import Query, QueryRow, unknown_query
from penstock.state.rows.header_rows import HeaderRows, headers_format
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, VALUE, Entry, EntryRow, RowFormat
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.times import whole_ms
from penstock.state.views import ValueAndTimestamp, taken
from penstock.state.windowed.arguments import BACKWARD_FETCH, FETCH, in_places
from penstock.state.windowed.expiring_store import ExpiringStateStore, ExpiringStoreBuilder
from penstock.state.windowed.keys import LARGEST_SEQUENCE, WindowKeySchema
from penstock.state.windowed.queries import WindowedForm, WindowKeyQuery, WindowRangeQuery
from penstock.state.windowed.row_queries import Place, answered, rows_of_key, rows_of_keys
from penstock.state.windowed.segments import Segments
from penstock.state.windowed.views import WindowStore
from penstock.state.with_headers.buffer import HeadersBuffer
from penstock.state.with_headers.views import ValueConverter
from penstock.state.write_buffer.write_buffer import WriteBuffer

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class WindowStoreBuilder(ExpiringStoreBuilder[K, V]):
    """A window store whose rows are value bytes. Mirrors ``WindowStoreBuilder``.

    A window is kept for ``retention_ms`` after its start. ``window_size_ms``: from a window's start to its end, which
    is not stored. ``retain_duplicates``: keep each value that is put for a key and window, not only the last; such a
    store has no caching. One that is ``time_ordered`` shows a window a ms longer, as Kafka Streams' does.
    """

    kind: ClassVar[str] = "window"

    window_size_ms: int = 0
    retain_duplicates: bool = False

    @property
    def row_format(self) -> RowFormat:
        """The form of its rows."""
        return VALUE

    @property
    @override
    def segments(self) -> Segments:
        return Segments(self.retention_ms, shows_last_ms=self.time_ordered)

    @property
    @override
    def entries(self) -> EntryForm:
        return WindowedForm(WindowKeySchema(self.window_size_ms))

    @override
    def windowed_key_serde(self, key_serde: Serde[K]) -> Serde[Windowed[K]]:
        return WindowedSerdes.time_windowed_serde_from(key_serde, self.window_size_ms)

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return WindowStateStore(self, context)

    @override
    def changelog_config(self, additional_retention_ms: int) -> Mapping[str, str]:
        config = super().changelog_config(additional_retention_ms)
        # Each duplicate has a key of its own: there is nothing to compact.
        return {**config, "cleanup.policy": "delete"} if self.retain_duplicates else config

    @override
    def with_caching_enabled(self) -> Self:
        if self.retain_duplicates:
            logger(__name__).warning("a store that retains duplicates has no caching", store=self.name)
            return self
        return super().with_caching_enabled()


@dataclass(frozen=True)
class TimestampedWindowStoreBuilder(HeadersOption[K, V], WindowStoreBuilder[K, V]):
    """A window store whose rows are a timestamp and value bytes; in the changelog the record has the timestamp.

    With ``headers``, rows begin with the headers; in the changelog they are the record's.
    """

    kind: ClassVar[str] = "timestamped window"

    @property
    @override
    def row_format(self) -> RowFormat:
        return headers_format(TIMESTAMPED_VALUE, self.headers, self.of_dsl)


class WindowStateStore(ExpiringStateStore):
    """A window store, plain or timestamped. The time of its rows is the start of their windows."""

    queries: ClassVar[tuple[type[Query], ...]] = (WindowKeyQuery, WindowRangeQuery)

    def __init__(self, builder: WindowStoreBuilder[Any, Any], context: StateStoreContext) -> None:
        self._schema = WindowKeySchema(builder.window_size_ms)
        row_format = builder.row_format
        buffer_kind = HeadersBuffer if isinstance(row_format, HeaderRows) else WriteBuffer
        super().__init__(builder, row_format, self._schema, context, buffer_kind)
        self._retain_duplicates = builder.retain_duplicates

    @override
    def view(self) -> TypedWindowStore:
        if isinstance(self.row_format, HeaderRows):
            return TypedWindowStoreWithHeaders(self, self.typed_keys(), self.context)
        return TypedWindowStore(self, self.typed_keys(), self.context.now)

    def put(self, key: bytes, value: Any, timestamp: int, window_start: int, headers: Headers | None = None) -> None:
        """Set the value of ``key`` in the window, or delete it with None. See :meth:`ExpiringRows.put`."""
        if not 0 <= window_start <= LARGEST_TIMESTAMP:
            raise self.not_a_start(window_start)
        rows = self.rows
        if self._retain_duplicates:
            if value is None:
                return
            rows.sequence = (rows.sequence + 1) & LARGEST_SEQUENCE
        suffix = self._schema.suffix(window_start, rows.sequence)
        rows.put(key, suffix, window_start, value, timestamp, headers, counted=True)

    def not_a_start(self, window_start: int) -> ValueError:
        """The error for a window whose start is impossible."""
        return ValueError(
            f"store {self.name}: a window cannot start before 0 or after {LARGEST_TIMESTAMP} ms: {window_start}"
        )

    def fetch(self, key: bytes, window_start: int) -> Entry | None:
        """The entry of this very window; None if there is none or it has expired. One get.

        If duplicates are retained, it is found only if it was the last one put, as in Kafka Streams.
        """
        return self._row(key, window_start) if self.rows.is_visible(window_start) else None

    @override
    def entry(self, windowed: Windowed[bytes]) -> Entry | None:
        start = windowed.window.start
        return self._row(windowed.key, start) if self.rows.shows_a_table(start) else None

    def _row(self, key: bytes, window_start: int) -> Entry | None:
        rows = self.rows
        return rows.buffer.get(rows.row_key(key, self._schema.suffix(window_start, rows.sequence), window_start))

    @override
    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        return None if self._retain_duplicates else self.changelog_rows_of(self.committed_rows())

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        match query:
            case WindowKeyQuery(key, time_from, time_to):
                found = rows_of_key(self.rows, key, time_from, time_to, Place(after, committed, query.descending))
            case WindowRangeQuery(time_from, time_to, from_key, to_key):
                place, times = Place(after, committed, query.descending), (time_from, time_to)
                found = rows_of_keys(self.rows, from_key, to_key, times, place)
            case _:
                raise unknown_query(query, self.name, self.queries)
        return answered(found, self.query_row, limit)


class TypedWindowStore(WindowStore[Any, Any]):
    """In a plain store each update has the current record's timestamp. The values of a timestamped store are
    :class:`ValueAndTimestamp`.
    """

    def __init__(self, store: WindowStateStore, keys: TypedKeys, now: Callable[[], int]) -> None:
        self.name = store.name
        self._store = store
        self._rows = store.rows
        self._keys = keys
        self._now = now
        self._timestamped = store.row_format.has_timestamp

    @override
    def put(self, key: Any, value: Any, window_start: int) -> None:
        timestamp = self._now()
        if type(window_start) is not int:
            window_start = whole_ms(self.name, "window_start", window_start)
        if self._timestamped and value is not None:
            value, timestamp = taken(self.name, "window", value)
        self._store.put(self._keys.written(key), value, timestamp, window_start)

    @override
    def fetch(self, *given: Any, **named: Any) -> Any:
        if named or not 2 <= len(given) <= 4:
            given = in_places("fetch", FETCH, given, named)
        if len(given) == 2:
            key, time = given
            entry = self._store.fetch(self._keys.serialize(key), whole_ms(self.name, "time", time))
            return None if entry is None else self._value(entry)
        return self._fetch(False, given)

    @override
    def backward_fetch(self, *given: Any, **named: Any) -> Any:
        return self._fetch(True, in_places("backward_fetch", BACKWARD_FETCH, given, named))

    def _fetch(self, reverse: bool, arguments: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
        if len(arguments) == 4:
            return self._of_keys(*arguments, reverse)
        key, time_from, time_to = arguments
        time = self._rows.schema.time
        time_from, time_to = self._times(time_from, time_to)
        rows = self._rows.of_key(self._keys.serialize(key), time_from, time_to, reverse)
        return ((time(row_key), self._value(entry)) for row_key, entry in rows)

    @override
    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._of_keys(None, None, time_from, time_to, False)

    @override
    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._of_keys(None, None, time_from, time_to, True)

    @override
    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._of_keys(None, None, 0, LARGEST_TIMESTAMP, False)

    @override
    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        return self._of_keys(None, None, 0, LARGEST_TIMESTAMP, True)

    def _of_keys(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        time_from, time_to = self._times(time_from, time_to)
        bounds = self._keys.bound(key_from), self._keys.bound(key_to)
        return map(self._windowed, self._rows.of_keys(*bounds, time_from, time_to, reverse))

    def _times(self, time_from: object, time_to: object) -> tuple[int, int]:
        return whole_ms(self.name, "time_from", time_from), whole_ms(self.name, "time_to", time_to)

    def _windowed(self, row: EntryRow) -> tuple[Windowed[Any], Any]:
        rows = self._rows
        return Windowed(self._keys.deserialize(rows.key(row[0])), rows.schema.window(row[0])), self._value(row[1])

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(entry[0], entry[1]) if self._timestamped else entry[0]


class TypedWindowStoreWithHeaders(TypedWindowStore):
    """The values are :class:`ValueTimestampHeaders`."""

    def __init__(self, store: WindowStateStore, keys: TypedKeys, context: StateStoreContext) -> None:
        super().__init__(store, keys, context.now)
        self._values = ValueConverter(store.name, store.row_format, context)

    @override
    def put(self, key: Any, value: Any, window_start: int) -> None:
        plain, timestamp, headers = self._values.taken(value)
        start = whole_ms(self.name, "window_start", window_start)
        self._store.put(self._keys.written(key), plain, timestamp, start, headers)

    @override
    def _value(self, entry: Entry) -> Any:
        return self._values.given(entry)
