"""Operators of tables, as values, and the look-ups in tables that are not materialised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import (
    KEY,
    VALUE,
    Operator,
    TableOperator,
    ValueGetter,
    called_with,
)


@dataclass(frozen=True)
class TableSource(TableOperator):
    """A stream read as a changelog (``table``, ``to_table``): a null key is dropped and counted, a null value deletes.

    ``store`` is None while nothing needs the table's content; then updates are only forwarded.
    """

    keeps_key = keeps_value = True

    @property
    @override
    def sees_value(self) -> bool:
        # A store holds objects.
        return self.store is not None


@dataclass(frozen=True)
class TableFilter(TableOperator):
    """Forward the value if the predicate holds (fails, when ``negate``), else a tombstone."""

    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool = False
    with_key: bool = True
    of_versions: bool = False
    """True if its source is versioned: then a change from nothing to nothing is forwarded, too."""

    keeps_key = keeps_value = True

    @property
    @override
    def call(self) -> str:
        return "filter_not" if self.negate else "filter"


@dataclass(frozen=True)
class TableMapValues(TableOperator):
    """``mapper`` gives the new value; null stays null without a call."""

    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = False

    call = "map_values"
    keeps_key, keeps_value = True, False


@dataclass(frozen=True)
class TableToStream(Operator):
    """Each update becomes a record: the old value is dropped, a null value is a record with a null value."""

    keeps_key = keeps_value = True


@dataclass(frozen=True)
class StoreGetter(ValueGetter):
    """The table's own store holds the value."""

    store: str
    versioned: bool = False

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class FilterGetter(ValueGetter):
    """The value of ``source`` if the predicate holds, else absent: a filtered table that is not materialised."""

    source: ValueGetter
    predicate: Callable[..., bool] = field(metadata=called_with(KEY, VALUE))
    negate: bool
    with_key: bool = True

    call = "filter"

    @property
    @override
    def versioned(self) -> bool:
        return self.source.versioned

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.source.stores


@dataclass(frozen=True)
class MapValuesGetter(ValueGetter):
    """The mapped value of ``source``: a mapped table that is not materialised."""

    source: ValueGetter
    mapper: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool

    call = "map_values"

    @property
    @override
    def versioned(self) -> bool:
        return self.source.versioned

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.source.stores
