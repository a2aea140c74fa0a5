"""Keys and values in a form that can be the key of a dict: which records have one key, and which calls are equal."""

from __future__ import annotations

import io
import pickle
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

_EXACT = frozenset({int, float, bool})


def hashable(value: Any) -> Hashable:
    """Returns ``value``, or a form of it that can be a key of a dict and is equal if the values are.

    What is equal to Python, but of another type, stays different: 1, 1.0, and True. Raises what ``pickle`` raises for
    an object that can neither be compared nor pickled.
    """
    kind = type(value)
    if kind is str or kind is bytes or value is None:
        return value  # type: ignore[no-any-return]  # mypy forgets the type of value
    if kind in _EXACT:
        return kind, value
    if isinstance(value, dict):
        return kind, frozenset((hashable(key), hashable(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return kind, tuple(map(hashable, value))
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(hashable, value))
    if kind.__eq__ is not object.__eq__:  # type: ignore[comparison-overlap]  # of a class, not of an object
        try:
            hash(value)
        except TypeError:
            if is_dataclass(value):
                return kind, tuple(hashable(getattr(value, each.name)) for each in fields(value))
        else:
            return value  # type: ignore[no-any-return]  # hash() has shown it
    return kind, _pickled(value)


def chain_of(key: Any) -> Hashable:
    """Returns what is equal for records of one key. Keys that cannot be told apart count as one."""
    try:
        return hashable(key)
    except Exception:  # a stranger's class may raise anything
        return (type(key),)


def same_of(value: Any) -> Hashable:
    """Returns what is equal for calls with equal values; None if the value cannot be compared with others."""
    try:
        return hashable(value)
    except Exception:  # as above
        return None


def digest(key: Any) -> str:
    """Returns a short text that is the same for equal keys, in another process, too."""
    try:
        data = _pickled(key)
    except Exception:  # as above
        data = type(key).__qualname__.encode()
    return blake2b(data, digest_size=8).hexdigest()


def _pickled(value: Any) -> bytes:
    written = io.BytesIO()
    pickler = pickle.Pickler(written, protocol=4)
    pickler.fast = True  # else two parts that are the same object have other bytes than two equal objects
    pickler.dump(value)
    return written.getvalue()
