"""Whether a value comes back from a store as it went in. If not, the application changes its ways with a restart."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from penstock.common.log import logger
from penstock.common.serdes import Serde

# The first value, the 10th, the 100th …: whoever writes other values later is found too, and it costs nothing.
_LATER = 10

_IDENTITY: object = object.__eq__


class RoundTripCheck:
    """Checks some of what is written to a store, and says once, as a warning, what would not survive a restart.

    ``part`` is "key" or "value". ``next`` is the number of the first one that is still to be checked.
    """

    def __init__(self, store: str, part: str, serde: Serde[Any]) -> None:
        self.next = 1
        self._store = store
        self._part = part
        self._serde = serde

    def check(self, value: Any, number: int) -> None:
        """The ``number``-th one is ``value``. Never raises: what cannot be serialised is told when it is written."""
        self.next = max(number, self.next) * _LATER
        try:
            data = self._serde.serialize(value)
        except Exception:  # told by whoever writes it, with the key or the record
            return
        try:
            back = self._serde.deserialize(data)
            survives = same(value, back)
        except Exception as error:
            self._tell(value, f"{type(error).__name__}: {error}")
            return
        if not survives:
            self._tell(value, f"{_type(back)} {_short(back)}")

    def _tell(self, value: Any, back: str) -> None:
        logger("penstock.state").warning(
            f"a {self._part} of store {self._store} does not survive its serde: after a restart the application would "
            f"be given another {self._part} than it has put",
            store=self._store,
            serde=self._serde.name,
            put=f"{_type(value)} {_short(value)}",
            comes_back=back,
            what_to_do=f"give the store a serde of this type (for JSON: Serdes.json({_type(value)})), "
            f"or put only what serde {self._serde.name} gives back",
        )
        self.next = 0  # never again


def same(value: Any, other: Any) -> bool:
    """Whether both are equal. NaN equals itself, and objects without an equality of their own are compared by
    attribute. What cannot be compared is the same if its type is."""
    try:
        if value is other or bool(value == other):
            return True
    except Exception:  # numpy's arrays and the like do not say
        return type(value) is type(other)
    if type(value) is not type(other):
        return False
    if isinstance(value, float):
        return value != value and other != other
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if is_dataclass(value):
        return all(same(getattr(value, each.name), getattr(other, each.name)) for each in fields(value))
    if type(value).__eq__ is _IDENTITY:
        return not hasattr(value, "__dict__") or same(vars(value), vars(other))
    return False


def _type(value: Any) -> str:
    return type(value).__qualname__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
