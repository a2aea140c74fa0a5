"""Window stores: the store of bytes that engine and operators see, and the typed one that a processor sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.contracts import StateStoreContext
from penstock.state.expiring_rows import EntryRow, ExpiringRows
from penstock.state.expiring_store import ExpiringStateStore
from penstock.state.queries import Query, QueryRow, unknown_query
from penstock.state.row_formats import Entry, RowFormat
from penstock.state.typed_keys import TypedKeys
from penstock.state.views import ValueAndTimestamp
from penstock.state.windowed_keys import LARGEST_SEQUENCE, WindowKeySchema
from penstock.state.windowed_queries import WindowKeyQuery, WindowRangeQuery


class WindowStateStore(ExpiringStateStore):
    """A window store, plain or timestamped. The time of its rows is the start of their windows."""

    queries = (WindowKeyQuery, WindowRangeQuery)

    def __init__(
        self,
        name: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        row_format: RowFormat,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool,
        context: StateStoreContext,
    ) -> None:
        self._schema = WindowKeySchema(window_size_ms)
        super().__init__(ExpiringRows(name, value_serde, row_format, self._schema, retention_ms, context), context)
        self._key_serde = key_serde
        self._retain_duplicates = retain_duplicates

    @override
    def view(self) -> TypedWindowStore:
        return TypedWindowStore(self, TypedKeys(self.name, self._key_serde), self.context.now)

    def put(self, key: bytes, value: Any, timestamp: int, window_start: int, headers: Headers | None = None) -> None:
        """Set the value of ``key`` in the window, or delete it with None. See :meth:`ExpiringRows.put`."""
        if window_start < 0:
            raise ValueError(f"store {self.name}: a window cannot start before 0: {window_start}")
        rows = self.rows
        if self._retain_duplicates:
            if value is None:
                return
            rows.sequence = (rows.sequence + 1) & LARGEST_SEQUENCE
        suffix = self._schema.suffix(window_start, rows.sequence)
        rows.put(key, suffix, window_start, value, timestamp, headers, counted=True)

    def fetch(self, key: bytes, window_start: int) -> Entry | None:
        """The entry of this very window; None when there is none or it has expired. One get.

        Where duplicates are retained it is found only if it was the last one put, as in Kafka Streams.
        """
        rows = self.rows
        if not rows.shows(window_start):
            return None
        return rows.buffer.get(rows.row_key(key, self._schema.suffix(window_start, rows.sequence), window_start))

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        match query:
            case WindowKeyQuery(key, time_from, time_to):
                found = self.rows.of_key(key, time_from, time_to, committed=committed, after=after)
            case WindowRangeQuery(time_from, time_to):
                found = self.rows.by_changelog_key(time_from, time_to, after, committed)
            case _:
                raise unknown_query(query, self.name, self.queries)
        return map(self.query_row, islice(found, limit))


class TypedWindowStore:
    """A :class:`~penstock.state.windowed_views.WindowStore`: that is where its methods are explained.

    In a plain store each update has the current record's timestamp. The values of a timestamped store are
    :class:`ValueAndTimestamp`.
    """

    def __init__(self, store: WindowStateStore, keys: TypedKeys, now: Callable[[], int]) -> None:
        self.name = store.name
        self._store = store
        self._rows = store.rows
        self._keys = keys
        self._now = now
        self._timestamped = store.rows.row_format.has_timestamp

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set, or with None delete."""
        timestamp = self._now()
        if self._timestamped and value is not None:
            value, timestamp = value
        self._store.put(self._keys.written(key), value, timestamp, window_start)

    def fetch(self, key: Any, *rest: Any) -> Any:
        """Of a window; of a key and times; of a range of keys and times."""
        if len(rest) == 1:
            entry = self._store.fetch(self._keys.serialize(key), *rest)
            return None if entry is None else self._value(entry)
        return self._fetch(False, key, *rest)

    def backward_fetch(self, key: Any, *rest: Any) -> Any:
        """Of a key and times; of a range of keys and times."""
        return self._fetch(True, key, *rest)

    def _fetch(self, reverse: bool, *arguments: Any) -> Iterator[tuple[Any, Any]]:
        match arguments:
            case (key, time_from, time_to):
                time = self._rows.schema.time
                rows = self._rows.of_key(self._keys.serialize(key), time_from, time_to, reverse)
                return ((time(row_key), self._value(entry)) for row_key, entry in rows)
            case (key_from, key_to, time_from, time_to):
                return self._of_keys(key_from, key_to, time_from, time_to, reverse)
        raise TypeError("fetch takes (key, time), (key, time_from, time_to) or (key_from, key_to, time_from, time_to)")

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every key's windows that start between the times."""
        return self._of_keys(None, None, time_from, time_to, False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """The same, backwards."""
        return self._of_keys(None, None, time_from, time_to, True)

    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Everything that has not expired."""
        return self._of_keys(None, None, 0, LARGEST_TIMESTAMP, False)

    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """The same, backwards."""
        return self._of_keys(None, None, 0, LARGEST_TIMESTAMP, True)

    def _of_keys(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int, reverse: bool
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        bounds = self._keys.bound(key_from), self._keys.bound(key_to)
        return map(self._windowed, self._rows.of_keys(*bounds, time_from, time_to, reverse))

    def _windowed(self, row: EntryRow) -> tuple[Windowed[Any], Any]:
        rows = self._rows
        return Windowed(self._keys.deserialize(rows.key(row[0])), rows.schema.window(row[0])), self._value(row[1])

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(entry[0], entry[1]) if self._timestamped else entry[0]
