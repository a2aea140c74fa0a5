"""The functions of the serdes whose bytes are those of one Python value: text, bytes, numbers, UUIDs."""

from __future__ import annotations

import struct
import uuid as _uuid
from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.plain_json import number_of_numpy
from penstock.common.shown import shown_with_type


def same(data: bytes) -> bytes:
    """Returns ``data``."""
    return data


def check_text(data: Iterable[bytes]) -> None:
    """Raises UnicodeDecodeError unless all of ``data`` is UTF-8."""
    # A line feed is one byte in UTF-8 and part of no other character: so joined texts are valid iff each of them is.
    # Only some are joined at a time: a whole fetch of large texts would take twice its memory.
    texts = data if isinstance(data, list) else list(data)
    if len(texts) == 1 and texts[0].isascii():
        return
    for start in range(0, len(texts), 64):
        whole = b"\n".join(texts[start : start + 64])
        if not whole.isascii():
            whole.decode()


def fixed(name: str, layout: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Returns the functions that write and read a number of this layout of ``struct``."""
    packed = struct.Struct(layout)
    pack, unpack, size = packed.pack, packed.unpack, packed.size

    def deserialize(data: bytes) -> Any:
        if len(data) != size:
            raise SerializationError(f"{name}: {size} bytes expected, {len(data)} received")
        return unpack(data)[0]

    return pack, deserialize


def bool_of_text(text: str) -> bool:
    """Returns the value of ``true`` or ``false``. Raises ValueError for another text."""
    if text not in ("true", "false"):
        raise ValueError(f"neither true nor false: {text!r}")
    return text == "true"


def serialize_boolean(value: bool) -> bytes:
    """Returns one byte, 0 or 1. Raises SerializationError for what is no bool, of numpy either."""
    # struct would write the truth of any object: b"\x01" for "false".
    if not isinstance(value, bool) and not isinstance(number_of_numpy(value), bool):
        raise SerializationError(f"boolean: True or False expected, not {value!r} ({type(value).__name__})")
    return b"\x01" if value else b"\x00"


def deserialize_boolean(data: bytes) -> bool:
    """Returns the bool. Raises SerializationError unless ``data`` is one byte, 0 or 1."""
    if data not in (b"\x00", b"\x01"):
        raise SerializationError(f"boolean: one byte expected, 0 or 1, {data.hex(' ') or 'none'} received")
    return data == b"\x01"


def serialize_uuid(value: _uuid.UUID) -> bytes:
    """Returns the 36 characters of a UUID. Raises SerializationError for anything else."""
    if not isinstance(value, _uuid.UUID):
        raise SerializationError(f"uuid: a UUID expected, not {value!r} ({type(value).__name__})")
    return str(value).encode()


def deserialize_uuid(data: bytes) -> _uuid.UUID:
    """Returns the UUID. Raises SerializationError unless ``data`` is its 36 characters."""
    text = data.decode()
    try:
        value = _uuid.UUID(text)
    except ValueError:
        value = None
    # Python also reads braces, urn:uuid: and hyphens anywhere; Kafka's serde has one form.
    if value is None or str(value) != text.lower():
        raise SerializationError(f"uuid: the 36 characters of a UUID expected, {text!r} received")
    return value


def serialize_buffer(value: memoryview) -> bytes:
    """Returns all bytes of a view. Raises SerializationError for what is no memoryview."""
    if not isinstance(value, memoryview):
        raise SerializationError(f"byte_buffer: a memoryview expected, not {shown_with_type(value)}")
    return value.tobytes()


def serialize_void(value: None) -> bytes:
    """Raises SerializationError: a null is never given to a serde."""
    raise SerializationError(f"void: only null can be written, not {value!r}")


def deserialize_void(data: bytes) -> None:
    """Raises SerializationError: a null is never given to a serde."""
    raise SerializationError(f"void: null expected, {len(data)} bytes received")
