"""A record that waits in a buffer, as bytes: value, and where it came from. Kafka Streams' ``BufferValue``, of which
stream-table joins leave the prior and the old value empty, and its ``ProcessorRecordContext``."""

from __future__ import annotations

from struct import Struct

from penstock.common.records import Headers, RecordMetadata

_TIME_AND_OFFSET = Struct(">qq")
_SIZE = Struct(">i")
_PARTITION_AND_HEADERS = Struct(">ii")
_NULL = -1
_NEITHER_PRIOR_NOR_OLD = _SIZE.pack(_NULL) * 2
_FROM_NOWHERE = RecordMetadata("", -1, -1)


def write_record(value: bytes, timestamp: int, metadata: RecordMetadata | None, headers: Headers | None) -> bytes:
    """The bytes. ``metadata`` is None for what no record of a topic has led to."""
    topic, partition, offset = metadata or _FROM_NOWHERE
    parts = [
        _TIME_AND_OFFSET.pack(timestamp, offset),
        _sized(topic.encode()),
        _PARTITION_AND_HEADERS.pack(partition, len(headers) if headers else 0),
    ]
    for name, data in headers or ():
        parts += (_sized(name.encode()), _SIZE.pack(_NULL) if data is None else _sized(data))
    parts += (_NEITHER_PRIOR_NOR_OLD, _sized(value))
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def read_record(row: bytes) -> tuple[bytes, RecordMetadata | None, Headers | None]:
    """The value, where the record came from, and its headers."""
    _, offset = _TIME_AND_OFFSET.unpack_from(row)
    topic, position = _read_sized(row, _TIME_AND_OFFSET.size)
    partition, count = _PARTITION_AND_HEADERS.unpack_from(row, position)
    position += _PARTITION_AND_HEADERS.size
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_sized(row, position)
        data, position = _read_sized(row, position)
        headers.append(((name or b"").decode(), data))
    for _ in range(3):
        value, position = _read_sized(row, position)
    metadata = RecordMetadata(topic.decode(), partition, offset) if topic else None
    return value or b"", metadata, headers or None


def _read_sized(row: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(row, position)
    begin = position + _SIZE.size
    return (None, begin) if size == _NULL else (row[begin : begin + size], begin + size)
