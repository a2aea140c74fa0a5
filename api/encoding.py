"""How keys and values become JSON."""

from __future__ import annotations

import reprlib
from base64 import b64encode
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel

from penstock.cluster.read_side import StoreEntries, StoreEntry
from penstock.common.errors import SerializationError


def to_json(value: Any) -> bytes:
    """``value`` as JSON: what orjson writes by itself (dataclasses, enums, dates, UUIDs ...), bytes as base64, named
    tuples and pydantic models as objects, sets as arrays, decimals as text; NaN and infinities become null.

    What orjson refuses msgspec may write: integers of more than 64 bits, its own structs, nesting beyond 254 levels. A
    named tuple beside such a part stands as an array. Raises SerializationError when there is no JSON form.
    """
    try:
        return orjson.dumps(value, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        try:
            return msgspec.json.encode(value, enc_hook=_other)
        except Exception:  # whatever the value's own code raises, too; what orjson said of it goes into the error
            raise SerializationError(f"the value has no JSON form: {error.__cause__ or error}") from error


def page_json(page: StoreEntries) -> bytes:
    """A page of a range. A row that has no JSON form costs no other row its own: see :func:`entry_json`."""
    try:
        return orjson.dumps({"entries": page.entries, "cursor": page.cursor}, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        rows = [orjson.Fragment(entry_json(entry)) for entry in page.entries]
        return orjson.dumps({"entries": rows, "cursor": page.cursor})


def found_json(found: Sequence[StoreEntry | None]) -> bytes:
    """Rows that were looked up, null for those that are absent; each as in a page."""
    try:
        return orjson.dumps({"entries": found}, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return orjson.dumps({"entries": [entry and orjson.Fragment(entry_json(entry)) for entry in found]})


def entry_json(entry: StoreEntry) -> bytes:
    """A row of a range: key, value, timestamp. Where one has no JSON form, both are Python's text of them, cut, and
    ``problem`` says why."""
    try:
        return to_json({"key": entry.key, "value": entry.value, "timestamp": entry.timestamp})
    except SerializationError as error:
        row = {"key": short_repr(entry.key), "value": short_repr(entry.value), "timestamp": entry.timestamp}
        return to_json({**row, "problem": str(error)})


_repr = reprlib.Repr()
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = 20
_repr.maxstring = _repr.maxlong = _repr.maxother = 500


def short_repr(value: Any) -> str:
    """Python's text of a value that JSON cannot show, of bounded length. Never raises."""
    try:
        return _repr.repr(value).encode(errors="backslashreplace").decode()
    except Exception as error:  # the value's own code runs
        return f"<{type(value).__qualname__}, whose repr raises {type(error).__name__}>"


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
