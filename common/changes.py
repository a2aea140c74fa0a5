"""The form of a table's update in a repartition topic: the new value, the old one, or both.

Byte for byte Kafka Streams' ``ChangedSerializer``, with both in one record since KIP-904.
"""

from __future__ import annotations

from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, why_refused

Change = tuple[Any, Any]
"""(new value or None, old value or None), of which at least one is there."""

_OLD, _NEW, _BOTH = 0, 1, 2
# The same three from tables that note if an update is their latest: one byte more, before the last.
_WITH_IS_LATEST = 3


def changed(values: Serde[Any]) -> Serde[Change]:
    """Returns the serde of changes of values whose serde is ``values``, which is bound already."""
    write, read = values.serialize, values.deserialize

    def serialize(change: Change) -> bytes:
        new, old = change
        try:
            if old is None:
                return write(new) + b"\x01"
            if new is None:
                return write(old) + b"\x00"
            data = write(new)
            return _varint(len(data)) + data + write(old) + b"\x02"
        except Exception as error:
            raise _refused(values, change, error) from error

    def deserialize(data: bytes) -> Change:
        flag, end = data[-1], -1
        if flag >= _WITH_IS_LATEST:
            flag, end = flag - _WITH_IS_LATEST, -2
        if flag == _NEW:
            return read(data[:end]), None
        if flag == _OLD:
            return None, read(data[:end])
        if flag != _BOTH:
            raise SerializationError(f"changes end with a byte from 0 to 5, this one with {data[-1]}")
        length, begin = _read_varint(data)
        if begin + length > len(data) + end:
            raise SerializationError(f"a change of {len(data)} bytes cannot hold a new value of {length}")
        return read(data[begin : begin + length]), read(data[begin + length : end])

    return Serde(f"changes of {values.name}", serialize, deserialize)


def _varint(number: int) -> bytes:
    """Kafka's zig-zag form of a number that is not negative."""
    rest, data = number << 1, bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Returns the number at the beginning of ``data``, and the position behind it."""
    number = shift = 0
    for position, byte in enumerate(data, 1):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, position
        shift += 7
    raise SerializationError("the length of a change's new value is cut off")


def _refused(values: Serde[Any], change: Change, error: Exception) -> SerializationError:
    """Returns the error that names the value which ``values`` cannot write, and the reason."""
    for value in filter(lambda each: each is not None, change):
        try:
            values.serialize(value)
        except Exception as refused:
            return SerializationError(why_refused(values, value, refused))
    return SerializationError(f"{type(error).__name__}: {error}")
