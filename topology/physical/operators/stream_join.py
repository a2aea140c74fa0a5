"""The operators of a join of two streams: a node per side that keeps its records, a node per side that joins them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.physical.operators.operator import KEY, LEFT_VALUE, RIGHT_VALUE, Operator, called_with


@dataclass(frozen=True)
class JoinWindow(Operator):
    """Forward each record to its side's join, then keep it in ``store`` for the other side; not with a null key."""

    store: str

    keeps_key = keeps_value = True
    sees_value = True  # a store holds objects
    stores_by_key = ()

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class _StreamJoin(Operator):
    """``joiner(left, right)``, or ``joiner(key, left, right)`` if ``with_key``, for each pair within ``windows``.

    ``call_name`` is the method of the DSL.
    """

    call_name: str
    store: str
    joiner: Callable[..., Any] = field(metadata=called_with(KEY, LEFT_VALUE, RIGHT_VALUE))
    with_key: bool
    windows: JoinWindows

    sees_value = True
    stores_by_key = ()

    @property
    @override
    def call(self) -> str:
        return self.call_name

    @property
    @override
    def stores_looked_into(self) -> frozenset[str]:
        return frozenset((self.store,))


@dataclass(frozen=True)
class StreamStreamJoin(_StreamJoin):
    """One side of a join: its records with those of the other side, which are in ``store``.

    ``left``: it is the left side. ``outer``: its records without a match are joined with null, once their window has
    closed. In a left or outer join they wait in ``outer_store``, which both sides share. Such a record has another key
    than the one that was received, but in the same form.
    """

    left: bool
    outer: bool = False
    outer_store: str | None = None

    keeps_key, keeps_value = True, False

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,) if self.outer_store is None else (self.store, self.outer_store)


@dataclass(frozen=True)
class StreamSelfJoin(_StreamJoin):
    """A stream joined with itself: both sides at once, over one store."""

    keeps_key, keeps_value = True, False

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)
