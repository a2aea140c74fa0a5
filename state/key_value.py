"""The typed key-value store that a processor sees, over a write buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from typing_extensions import override

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.state.round_trip import RoundTripCheck
from penstock.state.row_formats import Entry
from penstock.state.views import KeyValueStore, ValueAndTimestamp
from penstock.state.write_buffer import WriteBuffer


class TypedKeyValueStore(KeyValueStore[Any, Any]):
    """Serialises keys, and in a plain store stamps each update with the current record's time, as Kafka Streams does.

    The values of a timestamped store are :class:`ValueAndTimestamp`.
    """

    def __init__(self, buffer: WriteBuffer, key_serde: Serde[Any], now: Callable[[], int]) -> None:
        self.name = buffer.name
        self._buffer = buffer
        self._key_serde = key_serde
        self._key_bytes = key_serde.serialize
        self._key_object = key_serde.deserialize
        self._now = now
        self._timestamped = buffer.row_format.has_timestamp
        self._puts = 0
        self._round_trip = RoundTripCheck(buffer.name, "key", key_serde)

    def _bytes(self, key: Any) -> bytes:
        if key is None:
            raise SerializationError(f"store {self.name}: a key may not be None")
        try:
            return self._key_bytes(key)
        except Exception as error:
            raise SerializationError(f"store {self.name}: key: {why_refused(self._key_serde, key, error)}") from error

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(entry[0], entry[1]) if self._timestamped else entry[0]

    @override
    def get(self, key: Any) -> Any:
        entry = self._buffer.get(self._bytes(key))
        return None if entry is None else self._value(entry)

    @override
    def put(self, key: Any, value: Any) -> None:
        timestamp = self._now()
        if self._timestamped and value is not None:
            value, timestamp = value
        self._buffer.put(self._bytes(key), value, timestamp, None)
        self._puts += 1
        if self._puts == self._round_trip.next:
            self._round_trip.check(key, self._puts)

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
        entries = self._buffer.scan(from_key, to_key, reverse)
        return ((self._key_object(key), self._value(entry)) for key, entry in entries)

    @override
    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._scan(_optional(self._bytes, from_key), _optional(self._bytes, to_key), reverse=False)

    @override
    def reverse_range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        return self._scan(_optional(self._bytes, from_key), _optional(self._bytes, to_key), reverse=True)

    @override
    def all(self) -> Iterator[tuple[Any, Any]]:
        return self._scan(None, None, reverse=False)

    @override
    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return self._scan(None, None, reverse=True)

    @override
    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        entries = takewhile(lambda entry: entry[0].startswith(prefix), self._buffer.scan(prefix, _behind(prefix)))
        return ((self._key_object(key), self._value(entry)) for key, entry in entries)

    @override
    def approximate_num_entries(self) -> int:
        return self._buffer.approximate_num_entries()


def _optional(convert: Callable[[Any], bytes], key: Any) -> bytes | None:
    return None if key is None else convert(key)


def _behind(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with ``prefix``; None when there can be none."""
    shortest = prefix.rstrip(b"\xff")
    return shortest[:-1] + bytes([shortest[-1] + 1]) if shortest else None
