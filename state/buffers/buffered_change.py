"""An update that waits in a buffer, and its bytes: those that Kafka Streams writes to the buffer's changelog.

They are, each number big endian: the record's context (timestamp, offset, topic, partition, headers), the value that
was there before the first update that waited, the old value, the new value, and the time by which updates are in order.
This is Kafka Streams' version 3, which the header :data:`CHANGELOG_HEADERS` names.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Any

from penstock.common.errors import StateStoreError
from penstock.common.ids import TopicPartition
from penstock.common.records import Header, Headers
from penstock.common.serdes import Serde

Buffered = tuple[int, Any, Any, Any, int, Headers | None, TopicPartition | None, int, Any]
"""(time, prior value, old value, new value, timestamp, headers, source, offset, key).

*Prior* is the old value of the first update of the key that came in. ``source`` and ``offset`` are those of the record
that caused this update: None and −1 if none did. The key is None if it was not decoded yet.
"""

CHANGELOG_HEADERS: Headers = (("v", b"\x03"),)

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")
_INT = Struct(">i")
_read_int = _INT.unpack_from

_NULL = _INT.pack(-1)
_AS_PRIOR = _INT.pack(-2)
_NO_HEADERS = _INT.pack(0)
_TOPIC_AT = _TWO_LONGS.size

# Bytes of an update that Kafka Streams does not count, in addition to key, values, topic and headers: their lengths.
_LENGTHS = 5 * _INT.size
_LENGTHS_OF_A_HEADER = 2 * _INT.size


def without_source(data: bytes) -> bytes:
    """Returns ``data``, the bytes of an update, without the place of its record."""
    _, at = _sized(data, _TOPIC_AT)
    return data[: _LONG.size] + data[at + _INT.size :]


class BufferedChangeCodec:
    """Converts updates that wait in the buffer ``name`` to bytes and back. It caches the bytes of the few sources."""

    def __init__(self, name: str, value_serde: Serde[Any]) -> None:
        self._name = name
        self._serialize = value_serde.serialize
        self._deserialize = value_serde.deserialize
        self._source_bytes: dict[TopicPartition | None, bytes] = {}

    def encode(self, buffered: Buffered) -> bytes:
        """Returns the bytes of an update. Raises whatever the serde raises."""
        time, prior, old, new, timestamp, headers, source, offset, _ = buffered
        serialize = self._serialize
        prior_data = None if prior is None else serialize(prior)
        if old is None:
            old_part = _NULL
        elif old is prior or (old_data := serialize(old)) == prior_data:
            old_part = _AS_PRIOR
        else:
            old_part = _INT.pack(len(old_data)) + old_data
        return b"".join(
            (
                _TWO_LONGS.pack(timestamp, offset),
                self._source_bytes.get(source) or self._new_source(source),
                _headers_part(headers) if headers else _NO_HEADERS,
                _part(prior_data),
                old_part,
                _part(None if new is None else serialize(new)),
                _LONG.pack(time),
            )
        )

    def decode(self, data: bytes) -> Buffered:
        """Returns the update, but not its key, which is not in ``data``. Raises StateStoreError for another form."""
        try:
            timestamp, offset = _TWO_LONGS.unpack_from(data)
            topic, at = _sized(data, _TOPIC_AT)
            partition = _read_int(data, at)[0]
            headers, at = _headers(data, at + _INT.size)
            prior_data, at = _sized(data, at)
            is_prior = data[at : at + _INT.size] == _AS_PRIOR
            old_data, at = (None, at + _INT.size) if is_prior else _sized(data, at)
            new_data, at = _sized(data, at)
            time = _LONG.unpack_from(data, at)[0]
            source = TopicPartition(topic.decode(), partition) if topic else None
        except (struct.error, UnicodeDecodeError) as error:
            raise StateStoreError(
                f"store {self._name}: its changelog holds {data[:64].hex()}…, which is no update of Kafka Streams "
                "2.4.2 or later: let the old application run until its buffer is empty, or delete the changelog topic"
            ) from error
        prior = self._value(prior_data)
        old = prior if is_prior else self._value(old_data)
        return time, prior, old, self._value(new_data), timestamp, headers, source, offset, None

    def _value(self, data: bytes | None) -> Any:
        return None if data is None else self._deserialize(data)

    def _new_source(self, source: TopicPartition | None) -> bytes:
        # Kafka Streams cannot write an update without a source (a punctuation forwards one): it fails.
        topic, partition = ("", -1) if source is None else source
        name = topic.encode()
        made = self._source_bytes[source] = _INT.pack(len(name)) + name + _INT.pack(partition)
        return made


def time_of(data: bytes) -> int:
    """The time by which the update with these bytes is ordered."""
    time: int = _LONG.unpack_from(data, len(data) - _LONG.size)[0]
    return time


def counted_bytes(key: bytes, data: bytes) -> int:
    """Number of bytes that Kafka Streams counts against a limit for the update of ``key`` with these bytes."""
    topic_length = _read_int(data, _TOPIC_AT)[0]
    headers = _headers(data, _TOPIC_AT + 2 * _INT.size + topic_length)[0] or ()
    # Of the names of headers it counts characters.
    shorter = sum(len(name.encode()) - len(name.encode("utf-16-be")) // 2 for name, _ in headers)
    return len(key) + len(data) - _LENGTHS - _LENGTHS_OF_A_HEADER * len(headers) - shorter


def _part(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT.pack(len(data)) + data


def _headers_part(headers: Headers) -> bytes:
    return _INT.pack(len(headers)) + b"".join(_part(part) for name, value in headers for part in (name.encode(), value))


def _headers(data: bytes, at: int) -> tuple[Headers | None, int]:
    """Returns the headers, None if there are none, and the index after them."""
    count = _read_int(data, at)[0]
    at += _INT.size
    if count <= 0:
        return None, at
    found: list[Header] = []
    for _ in range(count):
        name, at = _sized(data, at)
        value, at = _sized(data, at)
        found.append(((name or b"").decode(), value))
    return found, at


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns the bytes that follow their length, None for null, and the index after them."""
    length = _read_int(data, at)[0]
    begin = at + _INT.size
    if length < 0:
        return None, begin
    return data[begin : begin + length], begin + length
