"""JSON without a type: what it can carry, and back, unchanged; all else is refused when it is written.

Carried are dict with str keys, list, str, int, float, bool and None, of exactly these types, and numbers of numpy. Why
it is looked at in Python, and what that costs: docs/decisions/0011.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from enum import Enum
from math import isfinite
from typing import Any

import msgspec
import orjson

from penstock.common.errors import SerializationError

read_json = msgspec.json.Decoder().decode
"""Any JSON value; integers of any size. Raises msgspec.DecodeError."""

_dumps = orjson.dumps
# orjson refuses keys that are not str by itself; tuples, enumerations, UUIDs and NaN it would write.
_REFUSE = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_encode = msgspec.json.Encoder().encode
# From here on orjson writes 1e+16 where msgspec, and penstock from its beginning, writes 1e16. Nor is NaN below it.
_LONG = 1e16
_EXACT = frozenset({str, int, bool, type(None)})
_NUMBERS = frozenset({str, int, bool, float})


def write_json(value: Any) -> bytes:
    """Compact UTF-8. Raises SerializationError for what would not come back as it is, with the way out."""
    if type(value) is dict:
        # The first lines of _carries once more: most values are flat, and a call costs as much as three entries.
        for each in value.values():
            kind = type(each)
            if kind is str or kind is int or (kind is float and -_LONG < each < _LONG):
                continue
            if kind is not bool and each is not None and not _carries((each,)):
                return _write_carefully(value)
    elif not _carries((value,)):
        return _write_carefully(value)
    try:
        return _dumps(value, None, _REFUSE)
    except TypeError:  # keys, integers beyond 64 bits, broken text
        return _write_carefully(value)


def _carries(values: Iterable[Any]) -> bool:
    """Whether orjson writes them all as they are to come back; keys are left to it."""
    for each in values:
        kind = type(each)
        if kind is str or kind is int or (kind is float and -_LONG < each < _LONG):
            continue
        if kind is bool or each is None:
            continue
        if kind is dict:
            if not _carries(each.values()):
                return False
        elif kind is not list or not _carries(each):
            return False
    return True


def _write_carefully(value: Any) -> bytes:
    return _encode(_checked(value, "value"))


def _checked(value: Any, at: str) -> Any:
    """``value`` with Python's numbers for numpy's. Raises SerializationError at the first part that is refused."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _refused(at, f"has a key of type {type(key).__name__}, {key!r}, which would come back as text")
        return {_checked(key, f"key {key!r} of {at}"): _checked(each, f"{at}[{key!r}]") for key, each in value.items()}
    if kind is list:
        return [_checked(each, f"{at}[{index}]") for index, each in enumerate(value)]
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
    return _checked(number, at)


def number_of_numpy(value: object) -> Any:
    """Python's number, or text, for a scalar of numpy; None for anything else. Does not import numpy."""
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
