"""What stands behind a ``KTable``: where its content can be looked up, and whether it tells old values.

Both are asked for by later operators, so these objects change until the topology is written: a table read from a topic
gets its store only when something looks into it, or when the user named it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operators import (
    FilterGetter,
    MapValuesGetter,
    Operator,
    StoreGetter,
    StreamAggregate,
    StreamCount,
    StreamReduce,
    TableFilter,
    TableMapValues,
    TableSource,
    ValueGetter,
)


class TableDefinition(ABC):
    """One table of the program."""

    def __init__(self) -> None:
        self.sends_old_values = False

    @abstractmethod
    def getter(self) -> ValueGetter:
        """How to look up a value; makes sure that there is a store to look into."""

    @abstractmethod
    def enable_sending_old_values(self, force: bool) -> bool:
        """Ask for old values with each update; ``force`` materialises the table for it. Whether they will be sent."""

    @abstractmethod
    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """The table's own store, if it has one."""

    @abstractmethod
    def operator(self) -> Operator:
        """What the table's node does."""


class SourceTable(TableDefinition):
    """A table read from a topic or made of a stream: materialised when ``named`` by the user, or when needed."""

    def __init__(self, store: AnyStoreBuilder, named: bool) -> None:
        super().__init__()
        self._store = store
        self._materialized = named

    def getter(self) -> ValueGetter:
        """From here on the table has its store."""
        self._materialized = True
        return StoreGetter(self._store.name)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Possible once there is a store."""
        if force or self._materialized:
            self._materialized = self.sends_old_values = True
        return self.sends_old_values

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """None as long as nothing needed it."""
        return (self._store,) if self._materialized else ()

    def operator(self) -> Operator:
        """The operator, with the store when there is one."""
        return TableSource(self._store.name if self._materialized else None, self.sends_old_values)


class AggregatedTable(TableDefinition):
    """The result of an aggregation: always materialised."""

    def __init__(self, store: AnyStoreBuilder, operator: StreamCount | StreamReduce | StreamAggregate) -> None:
        super().__init__()
        self._store = store
        self._operator = operator

    def getter(self) -> ValueGetter:
        """The aggregates themselves."""
        return StoreGetter(self._store.name)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Always possible."""
        self.sends_old_values = True
        return True

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """The store of the aggregates."""
        return (self._store,)

    def operator(self) -> Operator:
        """The aggregation."""
        return replace(self._operator, send_old_values=self.sends_old_values)


class DerivedTable(TableDefinition):
    """A table computed value by value from ``parent``: it has a store only when the user named one."""

    def __init__(
        self,
        parent: TableDefinition,
        store: AnyStoreBuilder | None,
        operator: TableFilter | TableMapValues,
        view: Callable[[ValueGetter], ValueGetter],
    ) -> None:
        super().__init__()
        self._parent = parent
        self._store = store
        self._operator = operator
        self._view = view

    def getter(self) -> ValueGetter:
        """Its own store, or the parent's seen through the function."""
        return StoreGetter(self._store.name) if self._store else self._view(self._parent.getter())

    def enable_sending_old_values(self, force: bool) -> bool:
        """From its own store, or computed from the parent's old values."""
        if self._store is not None or self._parent.enable_sending_old_values(force):
            self.sends_old_values = True
        return self.sends_old_values

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """The store the user named."""
        return (self._store,) if self._store else ()

    def operator(self) -> Operator:
        """The filter or the mapper."""
        store = self._store.name if self._store else None
        return replace(self._operator, store=store, send_old_values=self.sends_old_values)


def filtered(
    parent: TableDefinition, store: AnyStoreBuilder | None, predicate: Callable[[Any, Any], bool], negate: bool
) -> TableDefinition:
    """``filter`` and ``filter_not``."""
    table = DerivedTable(
        parent,
        store,
        TableFilter(predicate, negate),
        lambda getter: FilterGetter(getter, predicate, negate),
    )
    # A parent that can tell old values for nothing does: it spares tombstones for keys that never passed the filter.
    table.sends_old_values = parent.enable_sending_old_values(force=False)
    return table


def mapped(
    parent: TableDefinition, store: AnyStoreBuilder | None, mapper: Callable[..., Any], with_key: bool
) -> TableDefinition:
    """``map_values``."""
    return DerivedTable(
        parent, store, TableMapValues(mapper, with_key), lambda getter: MapValuesGetter(getter, mapper, with_key)
    )


def store_of(getter: ValueGetter) -> str:
    """The store into which ``getter`` looks in the end."""
    while not isinstance(getter, StoreGetter):
        getter = getter.source
    return getter.store
