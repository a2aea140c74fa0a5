"""How keys and values become bytes, byte for byte as Kafka Streams' own serdes do it.

A serde is a value of two plain functions: operators call the functions directly, so that nothing is looked up per
record. ``None`` never reaches a serde: a null key or value is null on the wire.
"""

from __future__ import annotations

import builtins
import struct
import uuid as _uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, SupportsIndex, TypeVar

import msgspec

from penstock.common.errors import SerializationError

T = TypeVar("T")


@dataclass(frozen=True)
class Serde(Generic[T]):
    """A pair of functions between objects and bytes.

    ``serialize`` and ``deserialize`` may raise any exception: penstock adds topic, partition and offset.
    ``lossless`` promises that every byte string is the form of exactly one object; then bytes that no user function
    looks at travel undecoded. ``from_text`` reads a key given as text, in a URL or on the command line.
    """

    name: str
    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    from_text: Callable[[str], T] | None = None
    lossless: bool = False

    def __repr__(self) -> str:
        return f"Serde({self.name})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        # What comes with penstock travels by name: its functions are C objects that cannot be pickled.
        if _BUILT_IN.get(self.name) is self:
            return _built_in, (self.name,)
        return super().__reduce_ex__(protocol)


def _same(data: bytes) -> bytes:
    return data


def _fixed(name: str, layout: str, of_text: Callable[[str], Any]) -> Serde[Any]:
    packed = struct.Struct(layout)
    pack, unpack, size = packed.pack, packed.unpack, packed.size

    def deserialize(data: bytes) -> Any:
        if len(data) != size:
            raise SerializationError(f"{name}: {size} bytes expected, {len(data)} received")
        return unpack(data)[0]

    return Serde(name, pack, deserialize, of_text)


def _bool_of_text(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"neither true nor false: {text!r}")
    return text == "true"


def _serialize_boolean(value: bool) -> bytes:
    # struct would write the truth of any object: b"\x01" for "false".
    if not isinstance(value, bool):
        raise SerializationError(f"boolean: True or False expected, not {value!r}")
    return b"\x01" if value else b"\x00"


def _deserialize_boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise SerializationError(f"boolean: one byte expected, 0 or 1, {data.hex(' ') or 'none'} received")
    return data == b"\x01"


def _serialize_uuid(value: _uuid.UUID) -> bytes:
    if not isinstance(value, _uuid.UUID):
        raise SerializationError(f"uuid: a UUID expected, not {value!r}")
    return str(value).encode()


def _deserialize_uuid(data: bytes) -> _uuid.UUID:
    text = data.decode()
    try:
        value = _uuid.UUID(text)
    except ValueError:
        value = None
    # Python also reads braces, urn:uuid: and hyphens in any place; Kafka's serde has one form.
    if value is None or str(value) != text.lower():
        raise SerializationError(f"uuid: the 36 characters of a UUID expected, {text!r} received")
    return value


def _serialize_void(value: None) -> bytes:
    raise SerializationError(f"void: only null can be written, not {value!r}")


def _deserialize_void(data: bytes) -> None:
    raise SerializationError(f"void: null expected, {len(data)} bytes received")


_STRING: Serde[str] = Serde("string", str.encode, bytes.decode, str, lossless=True)
_BYTES: Serde[bytes] = Serde("bytes", bytes.__bytes__, _same, str.encode, lossless=True)
_SHORT: Serde[int] = _fixed("short", ">h", int)
_INTEGER: Serde[int] = _fixed("integer", ">i", int)
_LONG: Serde[int] = _fixed("long", ">q", int)
_FLOAT: Serde[float] = _fixed("float", ">f", float)
_DOUBLE: Serde[float] = _fixed("double", ">d", float)
_BOOLEAN: Serde[bool] = Serde("boolean", _serialize_boolean, _deserialize_boolean, _bool_of_text)
_UUID: Serde[_uuid.UUID] = Serde("uuid", _serialize_uuid, _deserialize_uuid, _uuid.UUID)
_read_json = msgspec.json.Decoder().decode
_JSON: Serde[Any] = Serde("json", msgspec.json.Encoder().encode, _read_json, _read_json)
_VOID: Serde[None] = Serde("void", _serialize_void, _deserialize_void)

_BUILT_IN: dict[str, Serde[Any]] = {
    serde.name: serde
    for serde in (_STRING, _BYTES, _SHORT, _INTEGER, _LONG, _FLOAT, _DOUBLE, _BOOLEAN, _UUID, _JSON, _VOID)
}


def _built_in(name: str) -> Serde[Any]:
    return _BUILT_IN[name]


class Serdes:
    """The serdes that come with penstock; the bytes are those of Kafka's own ``Serdes``."""

    @staticmethod
    def string() -> Serde[str]:
        """UTF-8 text."""
        return _STRING

    @staticmethod
    def bytes() -> Serde[builtins.bytes]:
        """Bytes as they are."""
        return _BYTES

    @staticmethod
    def short() -> Serde[int]:
        """A signed integer in 2 bytes, big endian."""
        return _SHORT

    @staticmethod
    def integer() -> Serde[int]:
        """A signed integer in 4 bytes, big endian."""
        return _INTEGER

    @staticmethod
    def long() -> Serde[int]:
        """A signed integer in 8 bytes, big endian."""
        return _LONG

    @staticmethod
    def float() -> Serde[builtins.float]:
        """An IEEE number in 4 bytes, big endian."""
        return _FLOAT

    @staticmethod
    def double() -> Serde[builtins.float]:
        """An IEEE number in 8 bytes, big endian: Python's own float."""
        return _DOUBLE

    @staticmethod
    def boolean() -> Serde[bool]:
        """One byte, 0 or 1."""
        return _BOOLEAN

    @staticmethod
    def uuid() -> Serde[_uuid.UUID]:
        """The 36 characters of a UUID."""
        return _UUID

    @staticmethod
    def json() -> Serde[Any]:
        """Any JSON value, as compact UTF-8. Objects are dictionaries; integers have any size.

        NaN and the infinities, which JSON does not have, are written as null, and refused when they are read.
        Dataclasses, enumerations, dates and UUIDs can be written too, and are read as what JSON has for them.
        """
        return _JSON

    @staticmethod
    def void() -> Serde[None]:
        """Always null."""
        return _VOID
