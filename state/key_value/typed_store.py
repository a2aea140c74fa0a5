"""The typed key-value stores that a processor sees, over a write buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from typing_extensions import override

from penstock.state.contracts import StateStoreContext
from penstock.state.queries import end_of_prefix
from penstock.state.rows.row_formats import Entry
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.views import KeyValueStore, ValueAndTimestamp, taken
from penstock.state.with_headers.views import ValueConverter
from penstock.state.write_buffer.write_buffer import WriteBuffer


class TypedKeyValueStore(KeyValueStore[Any, Any]):
    """Serialises keys, and in a plain store stamps each update with the current record's time, as Kafka Streams does.

    The values of a timestamped store are :class:`ValueAndTimestamp`.
    """

    def __init__(self, buffer: WriteBuffer, keys: TypedKeys, now: Callable[[], int]) -> None:
        self.name = buffer.name
        self._buffer = buffer
        self._keys = keys
        self._now = now
        self._timestamped = buffer.row_format.has_timestamp

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(entry[0], entry[1]) if self._timestamped else entry[0]

    @override
    def get(self, key: Any) -> Any:
        entry = self._buffer.get(self._keys.serialize(key))
        return None if entry is None else self._value(entry)

    @override
    def put(self, key: Any, value: Any) -> None:
        timestamp = self._now()
        if self._timestamped and value is not None:
            value, timestamp = taken(self.name, "key-value", value)
        self._buffer.put(self._keys.written(key), value, timestamp, None)

    @override
    def put_if_absent(self, key: Any, value: Any) -> Any:
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    @override
    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    @override
    def delete(self, key: Any) -> Any:
        old = self.get(key)
        self.put(key, None)
        return old

    def _scan(self, from_key: bytes | None, to_key: bytes | None, reverse: bool) -> Iterator[tuple[Any, Any]]:
        entries, key_object = self._buffer.scan(from_key, to_key, reverse), self._keys.deserialize
        return ((key_object(key), self._value(entry)) for key, entry in entries)

    @override
    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._scan(self._keys.bound(from_key), self._keys.bound(to_key), reverse=False)

    @override
    def reverse_range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._scan(self._keys.bound(from_key), self._keys.bound(to_key), reverse=True)

    @override
    def all(self) -> Iterator[tuple[Any, Any]]:
        return self._scan(None, None, reverse=False)

    @override
    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return self._scan(None, None, reverse=True)

    @override
    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        key_object = self._keys.deserialize
        entries = takewhile(lambda entry: entry[0].startswith(prefix), self._buffer.scan(prefix, end_of_prefix(prefix)))
        return ((key_object(key), self._value(entry)) for key, entry in entries)

    @override
    def approximate_num_entries(self) -> int:
        return self._buffer.approximate_num_entries()


class TypedKeyValueStoreWithHeaders(TypedKeyValueStore):
    """The values are :class:`ValueTimestampHeaders`."""

    def __init__(self, buffer: WriteBuffer, keys: TypedKeys, context: StateStoreContext) -> None:
        super().__init__(buffer, keys, context.now)
        self._values = ValueConverter(buffer.name, buffer.row_format, context)

    @override
    def _value(self, entry: Entry) -> Any:
        return self._values.given(entry)

    @override
    def put(self, key: Any, value: Any) -> None:
        self._buffer.put(self._keys.written(key), *self._values.taken(value))
