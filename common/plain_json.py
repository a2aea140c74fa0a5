"""JSON without a type: values that are read back unchanged are written, and all others are refused.

It writes dict with str keys, list, str, int, float, bool and None, of exactly these types, and numbers of numpy. How
values are checked, and what that costs: docs/decisions/0011. The first check also exists compiled, in
``json_codec.pyx``; if that could not be built, the one below is used.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from math import isfinite
from typing import Any

import msgspec
import orjson

from penstock.common.errors import SerializationError

MAX_DEPTH = 200
"""Number of dicts and lists that may be nested. Without this limit, Python's stack would be the limit, and one part of
a program could read values that another could not write."""
SURELY_FLAT = 2 * MAX_DEPTH
"""Shorter data cannot be nested deeper: each level takes two brackets."""

_decode = msgspec.json.Decoder().decode
_dumps = orjson.dumps
_encode = msgspec.json.Encoder().encode
_CONTAINERS = frozenset({dict, list})
_EXACT = frozenset({str, int, bool, type(None)})
_NUMBERS = frozenset({str, int, bool, float})


def _read_json(data: bytes) -> Any:
    """Reads any JSON value; integers of any size. Raises msgspec.DecodeError, SerializationError beyond MAX_DEPTH."""
    return _decode(data) if len(data) <= SURELY_FLAT else _read_long(data)


def _read_long(data: bytes) -> Any:
    try:
        value = _decode(data)
    except RecursionError as error:
        raise _too_deep() from error
    if _many_brackets(data):
        _refuse_deep(value)
    return value


def check_depth(data: bytes) -> None:
    """Raises SerializationError for JSON that is nested deeper than MAX_DEPTH."""
    if len(data) > SURELY_FLAT and _many_brackets(data):
        read_json(data)


def _many_brackets(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        level = [
            each
            for outer in level
            if type(outer) in _CONTAINERS
            for each in (outer.values() if type(outer) is dict else outer)
            if type(each) in _CONTAINERS
        ]
    raise _too_deep()


def _too_deep() -> SerializationError:
    return SerializationError(
        f"json: dicts and lists are nested more than {MAX_DEPTH} deep, which is not supported: flatten the value"
    )


def _write_json(value: Any) -> bytes:
    """Writes compact UTF-8. Raises SerializationError, which says what to do, for a value that would not be read back
    unchanged."""
    if not _carries((value,), MAX_DEPTH):
        return _write_carefully(value)
    try:
        return _dumps(value)
    except TypeError:  # keys, integers beyond 64 bits, broken text
        return _write_carefully(value)


def _carries(values: Iterable[Any], room: int) -> bool:
    """Returns True if orjson writes all as it is to come back; keys are left to it. ``room``: levels that may follow.

    It would write tuples, enumerations, UUIDs and NaN; keys that are not str it refuses by itself. From 1e16 on it
    writes 1e+16 where msgspec, and penstock from its beginning, writes 1e16. Nor is NaN below it.
    """
    for each in values:
        # The type is asked for again each time: in Python 3.11 that is cheaper than a variable.
        if type(each) is str or type(each) is int or (type(each) is float and -1e16 < each < 1e16):
            continue
        if type(each) is bool or each is None:
            continue
        if type(each) is dict:
            if not room or not _carries(each.values(), room - 1):
                return False
        elif type(each) is not list or not room or not _carries(each, room - 1):
            return False
    return True


def _write_carefully(value: Any) -> bytes:
    return _encode(_checked(value, "value", MAX_DEPTH))


def _checked(value: Any, at: str, room: int) -> Any:
    """Returns ``value`` with Python's numbers for numpy's. Raises SerializationError for the first refused part."""
    kind = type(value)
    if kind in _CONTAINERS and not room:
        raise _too_deep()
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _refused(at, f"has a key of type {type(key).__name__}, {key!r}, which would come back as text")
        return {
            _checked(key, f"key {key!r} of {at}", 0): _checked(each, f"{at}[{key!r}]", room - 1)
            for key, each in value.items()
        }
    if kind is list:
        return [_checked(each, f"{at}[{index}]", room - 1) for index, each in enumerate(value)]
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise SerializationError(f"json: {at} is no valid text: {error}") from error
        return value
    if kind is float and not isfinite(value):
        raise SerializationError(f"json: {at} is {value!r}, which JSON does not have: use None, or leave it out")
    if kind is float or kind in _EXACT:
        return value
    number = number_of_numpy(value)
    if number is None:
        raise _refused(at, f"is of type {kind.__qualname__}, {_becomes(value)}")
    return _checked(number, at, room)


def number_of_numpy(value: object) -> Any:
    """Returns Python's number, or text, for a scalar of numpy; None for anything else. Does not import numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return None
    number = value.item()
    return number if type(number) in _NUMBERS else None


def _becomes(value: object) -> str:
    if isinstance(value, type):
        return "and JSON has no form for it"
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct) or hasattr(value, "model_dump_json"):
        return "which would come back as a dict"
    if isinstance(value, tuple | set | frozenset):
        return "which would come back as a list"
    if isinstance(value, dict | list | str | int | float | Enum):
        return "which would come back as a plain value of another type"
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError):
        return "and JSON has no form for it"
    return "which would come back as text"


def _refused(at: str, what: str) -> SerializationError:
    return SerializationError(
        f"json: {at} {what}. Use Serdes.json(YourType), which writes and reads that type, or make plain values of it"
    )


def _forms() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    try:
        from penstock.common import json_codec
    except ImportError:
        return _read_json, _write_json
    json_codec.configure(SURELY_FLAT, MAX_DEPTH, _read_long, _write_carefully)
    for compiled in (json_codec.read_json, json_codec.write_json):
        # A serde that is pickled names its functions; where it arrives they may be the others.
        compiled.__module__ = __name__
    return json_codec.read_json, json_codec.write_json


read_json, write_json = _forms()
