"""How keys and values become JSON."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any

import orjson
from pydantic import BaseModel

from penstock.common.errors import SerializationError


def to_json(value: Any) -> bytes:
    """``value`` as JSON: what orjson writes by itself (dataclasses, enums, dates, UUIDs ...), bytes as base64, named
    tuples and pydantic models as objects, sets as arrays, decimals as text; NaN and infinities become null.

    Raises SerializationError when there is no JSON form.
    """
    try:
        return orjson.dumps(value, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise SerializationError(f"the value has no JSON form: {error.__cause__ or error}") from error


def _other(value: Any) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case tuple():
            # orjson leaves subclasses of tuple to its caller: only a named tuple has fields.
            return value._asdict() if hasattr(value, "_asdict") else list(value)
        case set() | frozenset():
            return list(value)
        case Decimal():
            return str(value)
        case BaseModel():
            return value.model_dump()
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not a type that JSON can show")
