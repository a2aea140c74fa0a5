"""Writes keys and values as JSON."""

from __future__ import annotations

import reprlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel

from penstock.cluster.read_side import Reading, StoreEntries, StoreEntry
from penstock.common.errors import SerializationError
from penstock.common.windows import Window
from penstock.common.written_times import iso_time


def to_json(value: Any) -> bytes:
    """Returns ``value`` as JSON: the types that orjson writes by itself (dataclasses, enums, dates, UUIDs ...), bytes
    as base64, named tuples, pydantic models and messages of Protobuf as objects, sets as arrays, decimals as text; NaN
    and infinities become null.

    msgspec writes some values that orjson refuses: integers of more than 64 bits, its own structs, nesting beyond 254
    levels. A named tuple in such a value becomes an array. Raises SerializationError when there is no JSON form.
    """
    try:
        return orjson.dumps(value, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        try:
            return msgspec.json.encode(value, enc_hook=_other)
        except Exception:  # whatever the value's own code raises, too; orjson's reason goes into the error
            raise SerializationError(f"the value has no JSON form: {error.__cause__ or error}") from error


def shown_json(value: Any) -> bytes:
    """Like :func:`to_json`, for what people look at: a character that UTF-8 cannot have, as of the name of a file,
    becomes a question mark. Raises SerializationError if there is no JSON form for another reason."""
    try:
        return to_json(value)
    except SerializationError:
        return to_json(_encodable(value))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return _encodable(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


def page_json(page: StoreEntries, reading: Reading) -> bytes:
    """Returns a page of rows. A row that has no JSON form does not affect other rows: see :func:`entry_json`."""
    return _rows_json(page.entries, {"cursor": page.cursor, **reading.json_fields})


def found_json(found: Sequence[StoreEntry | None], reading: Reading) -> bytes:
    """Returns rows that were looked up, null for those that are absent; each as in a page."""
    return _rows_json(found, reading.json_fields)


def _rows_json(rows: Sequence[StoreEntry | None], besides: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps({"entries": rows, **besides}, _other, orjson.OPT_NON_STR_KEYS)
    except TypeError:
        shown = [entry and orjson.Fragment(entry_json(entry)) for entry in rows]
        return orjson.dumps({"entries": shown, **besides}, option=orjson.OPT_NON_STR_KEYS)


def entry_json(entry: StoreEntry) -> bytes:
    """Returns a row: key, value, timestamp, and the fields that its kind of store adds. If one has no JSON form, key
    and value are shown as Python's text of them, shortened, and ``problem`` is the reason."""
    row = members(entry)
    try:
        return to_json(row)
    except SerializationError as error:
        return to_json({**row, "key": short_repr(entry.key), "value": short_repr(entry.value), "problem": str(error)})


def members(entry: StoreEntry) -> dict[str, Any]:
    """Returns the fields of a row, by name."""
    return {name: getattr(entry, name) for name in entry.__match_args__}


def _window(window: Window) -> dict[str, Any]:
    start, end = window
    return {"start": start, "end": end, "start_time": iso_time(start), "end_time": iso_time(end)}


_repr = reprlib.Repr()
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = 20
_repr.maxstring = _repr.maxlong = _repr.maxother = 500


def short_repr(value: Any) -> str:
    """Returns Python's text of a value that JSON cannot show, of bounded length. Never raises."""
    try:
        return _repr.repr(value).encode(errors="backslashreplace").decode()
    except Exception as error:  # the value's own code runs
        return f"<{type(value).__qualname__}, whose repr raises {type(error).__name__}>"


def _message(value: Any) -> dict[str, Any]:
    """Returns the fields of a message of Protobuf, without those that may be unset and are."""
    fields = value.DESCRIPTOR.fields
    return {
        each.name: getattr(value, each.name) for each in fields if not each.has_presence or value.HasField(each.name)
    }


def _other(value: Any) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case Window():
            return _window(value)
        case tuple():
            # orjson leaves subclasses of tuple to its caller: only a named tuple has fields.
            return value._asdict() if hasattr(value, "_asdict") else list(value)
        case set() | frozenset():
            return list(value)
        case Decimal():
            return str(value)
        case BaseModel():
            return value.model_dump()
        case Sequence():  # as those of Protobuf
            return list(value)
        case Mapping():
            return dict(value)
        case _ if hasattr(value, "DESCRIPTOR"):
            return _message(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not a type that JSON can show")
