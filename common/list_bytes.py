"""The bytes of a list, byte for byte as Kafka's ``ListSerializer`` writes them. Numbers are signed, big endian.

::

    0   number of nulls, 4 bytes each their indices; number of elements; the bytes of each that is no null
    1   number of elements; each element's length, −1 for null, and its bytes

The first byte is 0 if Kafka knows that all elements of this serde have the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error, pack, unpack_from
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.shown import shown_with_type

_NUMBER = Struct(">i").pack
_NULL = _NUMBER(-1)


class ListBytes:
    """Writes and reads the lists of the serde ``name`` by the two functions for an element.

    ``size`` is the number of bytes of every element; None: they vary. The methods raise SerializationError, and
    whatever the two functions raise.
    """

    def __init__(
        self, name: str, write_one: Callable[[Any], bytes], read_one: Callable[[bytes], Any], size: int | None
    ) -> None:
        self._name = name
        self._write_one = write_one
        self._read_one = read_one
        self._size = size

    def write(self, value: list[Any]) -> bytes:
        """Returns the bytes of a list, whose elements may be None."""
        if type(value) is not list:
            raise self._refused(f"a list is expected, not {shown_with_type(value)}")
        write_one = self._write_one
        if self._size is not None:
            nulls = [index for index, each in enumerate(value) if each is None]
            head = pack(f">bi{len(nulls)}ii", 0, len(nulls), *nulls, len(value))
            return head + b"".join([write_one(each) for each in value if each is not None])
        parts = [b"\x01", _NUMBER(len(value))]
        for each in value:
            if each is None:
                parts.append(_NULL)
            else:
                data = write_one(each)
                parts += (_NUMBER(len(data)), data)
        return b"".join(parts)

    def read(self, data: bytes) -> list[Any]:
        """Returns the list. Bytes behind its end are ignored, as in Kafka."""
        try:
            if data[0] == 1:
                return self._read_varying(data)
            if data[0] == 0:
                return self._read_constant(data)
        except (error, IndexError):
            raise self._refused(f"the {len(data)} bytes end before the list does") from None
        raise self._refused(f"a list begins with a byte 0 or 1, this one with {data[0]}")

    def _read_varying(self, data: bytes) -> list[Any]:
        read_one = self._read_one
        elements: list[Any] = []
        at = 5
        for _ in range(self._length(unpack_from(">i", data, 1)[0])):
            (length,) = unpack_from(">i", data, at)
            at += 4
            if length == -1:
                elements.append(None)
                continue
            if length < 0:
                raise self._refused(f"an element cannot have {length} bytes")
            if at + length > len(data):
                raise IndexError
            elements.append(read_one(data[at : at + length]))
            at += length
        return elements

    def _read_constant(self, data: bytes) -> list[Any]:
        size, read_one = self._size, self._read_one
        if size is None:
            raise self._refused("the list was written with elements of one length, which those of this serde are not")
        (count,) = unpack_from(">i", data, 1)
        if count * 4 > len(data):
            raise IndexError
        *nulls, length = unpack_from(f">{max(count, 0) + 1}i", data, 5)
        at = 9 + 4 * len(nulls)
        null = set(nulls)
        elements: list[Any] = []
        for index in range(self._length(length)):
            if index in null:
                elements.append(None)
                continue
            if at + size > len(data):
                raise IndexError
            elements.append(read_one(data[at : at + size]))
            at += size
        return elements

    def _length(self, number: int) -> int:
        if number < 0:
            raise self._refused(f"a list cannot have {number} elements")
        return number

    def _refused(self, why: str) -> SerializationError:
        return SerializationError(f"{self._name}: {why}")
