"""Sets as lists in one order, so that equal values have equal bytes in every process.

Python iterates over a set by the hashes of its elements, which differ between processes for text, and by its history.
Keys, foreign-key joins and groups compare bytes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from pydantic_core import from_json, to_json

_SETS = (set, frozenset)
_ORDERED: frozenset[frozenset[type]] = frozenset((frozenset((int,)), frozenset((str,))))
"""Types of all elements of a set that their own order sorts: a total one, which frozenset and float do not have."""


def with_sorted_sets(value: Any, encode: Callable[[Any], bytes]) -> Any:
    """``value`` with a sorted list in place of each set within it: numbers and text by their order, all else by their
    JSON, which ``encode`` writes. A value without sets is returned itself; nothing is changed in place."""

    def changed(held: Any) -> Any:
        return with_sorted_sets(held, encode)

    if isinstance(value, _SETS):
        return _sorted(map(changed, value), encode)
    if isinstance(value, dict):
        values = {key: changed(each) for key, each in value.items()}
        return value if _same(value.values(), values.values()) else values
    if isinstance(value, list | tuple):
        items = [changed(each) for each in value]
        return value if _same(value, items) else items
    names = _field_names(value)
    fields = {name: changed(getattr(value, name)) for name in names if hasattr(value, name)}
    moved = {name: held for name, held in fields.items() if held is not getattr(value, name)}
    return _with_fields(value, moved) if moved else value


def _sorted(items: Iterable[Any], encode: Callable[[Any], bytes]) -> list[Any]:
    elements = list(items)
    return sorted(elements) if frozenset(map(type, elements)) in _ORDERED else sorted(elements, key=encode)


def _same(before: Iterable[Any], after: Iterable[Any]) -> bool:
    return all(old is new for old, new in zip(before, after, strict=True))


def _field_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if isinstance(value, type):
        return ()
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    return tuple(each.name for each in getattr(type(value), "__attrs_attrs__", ()))


def _with_fields(value: Any, fields: dict[str, Any]) -> Any:
    """Returns a copy that differs in ``fields``, made without ``__init__`` and ``__setattr__``, only to be written."""
    made = copy.copy(value)
    for name, held in fields.items():
        if isinstance(made, msgspec.Struct):
            msgspec.structs.force_setattr(made, name, held)
        else:
            object.__setattr__(made, name, held)
    return made


def sort_lists_of_sets(written: bytes, dumped: Any) -> bytes:
    """JSON that pydantic wrote, with the elements of each set sorted. ``dumped``: the same value as pydantic's Python
    form, which shows the sets, in the same order."""
    return to_json(_sorted_like(dumped, from_json(written)))


def _sorted_like(shape: Any, data: Any) -> Any:
    if isinstance(shape, dict) and isinstance(data, dict) and len(shape) == len(data):
        return {key: _sorted_like(each, held) for each, (key, held) in zip(shape.values(), data.items(), strict=True)}
    if isinstance(shape, (list, tuple, *_SETS)) and isinstance(data, list) and len(shape) == len(data):
        items = [_sorted_like(each, held) for each, held in zip(shape, data, strict=True)]
        return _sorted(items, to_json) if isinstance(shape, _SETS) else items
    return data
