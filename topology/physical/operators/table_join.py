"""Joins of two tables by their primary keys, as values: the two sides, what brings them together, and the look-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import (
    TABLE_VALUE,
    VALUE,
    Operator,
    Parameter,
    TableOperator,
    ValueGetter,
    called_with,
)


@dataclass(frozen=True)
class TableTableJoin(Operator):
    """One side of a join: updates of its own table, joined with what ``other`` holds under their key.

    ``keeps_own``: there is a result for a value of its own without a match. ``keeps_other``: likewise for one of the
    other table. ``reversed``: the joiner takes the other table's value first, as it was made for the other side.
    """

    other: ValueGetter
    joiner: Callable[[Any, Any], Any] = field(metadata=called_with(VALUE, TABLE_VALUE))
    call_name: str
    keeps_own: bool
    keeps_other: bool
    reversed: bool
    send_old_values: bool
    own_stores: tuple[str, ...]
    """The stores of the task in which its own table is kept. The operator itself does not look into them."""
    of_versions: bool = False
    """True if its own table is versioned: then updates that are not the latest of their key are dropped."""
    of_related_tables: bool = False
    """True if one table comes from the other: then one record changes a row of both."""

    keeps_key, keeps_value = True, False

    @property
    @override
    def call(self) -> str:
        return self.call_name

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.other.stores))

    @override
    def _parameters(self, declared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        return declared[::-1] if self.reversed else declared


@dataclass(frozen=True)
class TableJoinMerge(TableOperator):
    """Merges the results of both sides into one table."""

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class TableJoinGetter(ValueGetter):
    """The join of what ``left`` and ``right`` hold: a joined table that is not materialised.

    ``keeps_left``, ``keeps_right``: True if a value of that side without a match has a result.
    """

    left: ValueGetter
    right: ValueGetter
    joiner: Callable[[Any, Any], Any] = field(metadata=called_with(VALUE, TABLE_VALUE))
    call_name: str
    keeps_left: bool
    keeps_right: bool

    @property
    @override
    def call(self) -> str:
        return self.call_name

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.left.stores, *self.right.stores)))
