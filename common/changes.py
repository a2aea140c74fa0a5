"""The form of a table's update in a repartition topic: the new value, the old one, or both.

Byte for byte Kafka Streams' ``ChangedSerializer``, with both in one record since KIP-904.
"""

from __future__ import annotations

from typing import Any

from penstock.common.errors import RetriableError, SerializationError
from penstock.common.serdes import Serde, why_refused
from penstock.common.varints import read_varint, varint

Change = tuple[Any, Any]
"""(new value or None, old value or None), at least one of which is not None."""

_OLD, _NEW, _BOTH = 0, 1, 2
# The same three flags from tables that note if an update is their latest: one more byte, before the last.
_WITH_IS_LATEST = 3


def changed(values: Serde[Any]) -> Serde[Change]:
    """Returns the serde of changes of values. ``values``: the serde of the values, which is bound already."""
    write, read = values.serialize, values.deserialize

    def serialize(change: Change) -> bytes:
        new, old = change
        try:
            if old is None:
                return write(new) + b"\x01"
            if new is None:
                return write(old) + b"\x00"
            data = write(new)
            return varint(len(data)) + data + write(old) + b"\x02"
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
        try:
            length, begin = read_varint(data, 0)
        except IndexError:
            raise SerializationError("the length of a change's new value is cut off") from None
        if not 0 <= length <= len(data) + end - begin:
            raise SerializationError(f"a change of {len(data)} bytes cannot hold a new value of {length}")
        return read(data[begin : begin + length]), read(data[begin + length : end])

    return Serde(f"changes of {values.name}", serialize, deserialize)


def _refused(values: Serde[Any], change: Change, error: Exception) -> SerializationError:
    """Returns the error that names the value which the serde ``values`` cannot write, and the reason. Raises ``error``
    if that is a RetriableError."""
    if isinstance(error, RetriableError):
        raise error
    for value in filter(lambda each: each is not None, change):
        try:
            values.serialize(value)
        except Exception as refused:
            return SerializationError(why_refused(values, value, refused))
    return SerializationError(f"{type(error).__name__}: {error}")
