"""Operators of streams that keep no state, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import (
    KEY,
    VALUE,
    Operator,
    WithFunctions,
    called_with,
)


@dataclass(frozen=True)
class Filter(Operator):
    """Forward a record if, and only if, the predicate is true (false if ``negate``).

    It is called with (value), or with (key, value) when ``with_key``: so are all functions with such a flag.
    """

    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool = False
    with_key: bool = True

    keeps_key = keeps_value = True

    @property
    @override
    def call(self) -> str:
        return "filter_not" if self.negate else "filter"


@dataclass(frozen=True)
class DropNullKeys(Operator):
    """The filter above a repartition sink: a null key is dropped silently, unless ``keep`` (left join below)."""

    keep: bool = False

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class MapValues(Operator):
    """``mapper`` gives the new value."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = False

    call = "map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class Map(Operator):
    """``mapper(key, value)`` gives the new (key, value); anything but a pair is an error."""

    mapper: Callable[[Any, Any], tuple[Any, Any]] = field(metadata=called_with(KEY, VALUE))

    call = "map"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class SelectKey(Operator):
    """``mapper`` gives the new key."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "select_key"
    keeps_key, keeps_value = False, True


@dataclass(frozen=True)
class FlatMap(Operator):
    """``mapper(key, value)`` gives any number of (key, value) pairs."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]] = field(metadata=called_with(KEY, VALUE, many=True))

    call = "flat_map"
    keeps_key = keeps_value = False


@dataclass(frozen=True)
class FlatMapValues(Operator):
    """``mapper`` gives any number of values."""

    mapper: Callable[..., Iterable[Any]] = field(metadata=called_with(KEY, VALUE, many=True))
    with_key: bool = False

    call = "flat_map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class Peek(Operator):
    """Call ``action``, then forward."""

    action: Callable[..., object] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "peek"
    keeps_key = keeps_value = True


@dataclass(frozen=True)
class ForEach(Operator):
    """Call ``action``; nothing is forwarded."""

    action: Callable[..., object] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "for_each"
    keeps_key = keeps_value = True


@dataclass(frozen=True)
class PassThrough(Operator):
    """Forward to every child: merge, and the node of a branch (its predicate is in :class:`Branch`)."""

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class BranchCase(WithFunctions):
    """The records for which the predicate holds go to ``child``."""

    child: str
    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "branch"


@dataclass(frozen=True)
class Branch(Operator):
    """Forward to the child of the first case that holds, else to the child ``default``, if there is one."""

    cases: tuple[BranchCase, ...]
    default: str | None = None

    keeps_key = keeps_value = True
