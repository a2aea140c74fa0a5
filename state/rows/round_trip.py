"""Checks that a value comes back from a store as it went in. If not, a restart changes what the application does."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from penstock.common.errors import RetriableError
from penstock.common.log import logger
from penstock.common.plain_json import number_of_numpy
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type

# The first value, the 10th, the 100th … are checked: that also finds values that change later, and costs nothing.
_LATER = 10

_IDENTITY: object = object.__eq__
_NUMBERS = (bool, int, float)
_EQUAL_BY_VALUE = frozenset({bool, int, str, bytes})


class RoundTripCheck:
    """Checks some of what is written to a store, and warns once of a value that would not survive a restart.

    ``part`` is "key" or "value". ``next`` is the number of the next value to check; 0: none.
    """

    def __init__(self, store: str, part: str, serde: Serde[Any]) -> None:
        self.next = 1
        self._store = store
        self._part = part
        self._serde = serde

    def check(self, value: Any, number: int) -> None:
        """Check ``value``, the ``number``-th. Never raises: the write reports a value that cannot be serialised."""
        self.next = max(number, self.next) * _LATER
        try:
            data = self._serde.serialize(value)
        except Exception:  # the write reports it, with the key or the record
            return
        if lost := difference(self._serde, value, data):
            logger(__name__).warning(
                "object changed by its serde: after a restart the store would return a different one",
                store=self._store,
                part=self._part,
                serde=self._serde.name,
                put=shown_with_type(value),
                difference=lost,
                what_to_do=misfit(self._serde, value)
                or f"give the store a serde of this type (for JSON: Serdes.json({type(value).__qualname__})), "
                f"or put only what serde {self._serde.name} gives back",
            )
            self.next = 0  # never again


def misfit(serde: Serde[Any], value: Any) -> str:
    """Returns advice if ``serde`` is of the value's own type already; an empty text if another serde would help."""
    kind = type(value).__qualname__
    if serde.name != f"json({kind})":
        return ""
    return f"the value does not fit what {kind} declares: put what its fields' types say, or declare what is put"


def difference(serde: Serde[Any], value: Any, data: bytes) -> str:
    """Returns in which way ``value``, which ``serde`` has written as ``data``, does not come back; empty if it does.

    It must come back as its own type, and so must all that it is made of. Only numbers may change between bool, int and
    float, as 3 under ``Serdes.double()`` does, and lose digits that the serde has no room for. NaN equals itself, and
    objects without an equality of their own are compared by their attributes, or by their bytes.
    """
    try:
        back = serde.deserialize(data)
    except RetriableError:
        return ""  # it is unknown
    except Exception as error:
        return f"cannot be read back ({type(error).__name__}: {error})"
    try:
        if _same(value, back) or (_equal_by_bytes(value, back) and serde.serialize(back) == data):
            return ""
    except Exception:  # objects that refer to themselves, equality that raises
        if type(back) is type(value) and repr(back) == repr(value):
            return ""
    return f"comes back as {shown_with_type(back)}{_changed_field(value, back)}"


def _changed_field(value: Any, back: Any) -> str:
    """Names, in words, the first field in which two objects of one type differ; empty if none can be named."""
    if type(value) is not type(back) or not hasattr(value, "__annotations__"):
        return ""
    for name in dict.fromkeys(name for kind in type(value).__mro__ for name in getattr(kind, "__annotations__", ())):
        try:
            was, now = getattr(value, name, None), getattr(back, name, None)
            same = _same(was, now)
        except Exception:  # as above: that the objects differ is known without it
            return ""
        if not same:
            return f": its field {name} was {shown_with_type(was)} and is {shown_with_type(now)}"
    return ""


def _equal_by_bytes(value: Any, back: Any) -> bool:
    """Returns True if equal bytes prove that a value survives. For a dictionary with keys 1 and "1" they do not."""
    value, back = _plain(value), _plain(back)
    if type(value) in _NUMBERS:
        return type(back) in _NUMBERS
    return type(back) is type(value) and type(value).__eq__ is _IDENTITY


def _plain(value: Any) -> Any:
    number = number_of_numpy(value)
    return value if number is None else number


def _same(value: Any, back: Any) -> bool:
    if value is back:
        return True
    if type(value) in _EQUAL_BY_VALUE and type(back) is type(value):
        return bool(value == back)
    value, back = _plain(value), _plain(back)
    if type(value) in _NUMBERS and type(back) in _NUMBERS:
        return bool(value == back or (value != value and back != back))
    if type(value) is not type(back):
        return False
    if isinstance(value, dict):
        keys = {key: key for key in back}
        return len(value) == len(keys) and all(
            key in keys and _same(key, keys[key]) and _same(value[key], back[key]) for key in value
        )
    if isinstance(value, set | frozenset):
        return _same(dict.fromkeys(value), dict.fromkeys(back))
    if isinstance(value, list | tuple):
        return len(value) == len(back) and all(map(_same, value, back))
    if is_dataclass(value):
        return all(_same(getattr(value, each.name), getattr(back, each.name)) for each in fields(value) if each.compare)
    if isinstance(value, msgspec.Struct):
        return _same(msgspec.structs.asdict(value), msgspec.structs.asdict(back))
    if type(value).__eq__ is _IDENTITY:
        return _same(object.__getstate__(value), object.__getstate__(back))
    try:
        return bool(value == back) or repr(value) == repr(back)
    except Exception:  # the equality of numpy's arrays and the like is no bool
        return repr(value) == repr(back)
