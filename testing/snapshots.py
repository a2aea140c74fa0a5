"""What an object holds at one moment, as a value that can be compared with what it holds later."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from penstock.common.shown import shown

_NEVER_CHANGE = frozenset({type(None), bool, int, float, complex, str, bytes, type, range})


def form(value: Any) -> Any:
    """Equal for two moments iff nothing in ``value`` changed between them, as far as can be seen."""
    return _form(value, {})


def _form(value: Any, above: dict[int, int]) -> Any:
    kind = type(value)
    if kind in _NEVER_CHANGE:
        return kind, value
    if id(value) in above:
        return "cycle", above[id(value)]
    above = {**above, id(value): len(above)}
    parts: list[Any] = [kind]
    if isinstance(value, dict):
        parts += [(_form(key, above), _form(each, above)) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        parts += [_form(each, above) for each in value]
    elif isinstance(value, set | frozenset):
        parts.append(frozenset(_form(each, above) for each in value))
    attributes = [(name, _form(each, above)) for name, each in _attributes(value)]
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
    """An object of which Python shows no parts: an array, a date, a queue."""
    try:
        return pickle.dumps(value)
    except Exception:  # what cannot be pickled says for itself what it is
        return shown(value)
