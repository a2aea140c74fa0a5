"""Turns what an object holds at one moment into a value that can be compared with what it holds later."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any

from penstock.common.shown import shown

NEVER_CHANGE = frozenset({type(None), bool, int, float, complex, str, bytes, type, range})
"""Types whose objects stay as they are."""


def form(value: Any) -> Any:
    """Returns a form that is equal for two moments iff nothing in ``value`` changed between, as far as can be seen."""
    return _form(value, {})


def _form(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """``seen`` numbers, and keeps alive, what was walked already: shared parts and cycles are walked once."""
    kind = type(value)
    if kind in NEVER_CHANGE:
        return kind, value
    if isinstance(value, type | Enum):
        return kind, id(value)
    if isinstance(value, PurePath):  # it never changes, but remembers its text once that was asked for
        return kind, str(value)
    if id(value) in seen:
        return "seen", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    parts: list[Any] = [kind]
    if isinstance(value, dict):
        parts += [(_form(key, seen), _form(each, seen)) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        parts += [_form(each, seen) for each in value]
    elif isinstance(value, set | frozenset):
        parts.append(frozenset(_form(each, seen) for each in value))
    attributes = [(name, _form(each, seen)) for name, each in _attributes(value)]
    if len(parts) == 1 and not attributes:
        parts.append(_opaque(value))
    return tuple(parts + attributes)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    kept = {
        name for cls in type(value).__mro__ for name, each in vars(cls).items() if isinstance(each, cached_property)
    }
    for name, each in getattr(value, "__dict__", {}).items():
        if name not in kept:
            yield name, each
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
    for name in getattr(value, "__struct_fields__", ()):
        yield name, getattr(value, name)


def _opaque(value: Any) -> Any:
    """Returns the form of an object of which Python shows no parts: an array, a date, a queue."""
    try:
        return pickle.dumps(value)
    except Exception:  # of an object that cannot be pickled its repr is compared
        return shown(value)
