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
from penstock.topology.physical.operator import TableOperator, ValueGetter
from penstock.topology.physical.operators import (
    FilterGetter,
    MapValuesGetter,
    StoreGetter,
    TableFilter,
    TableMapValues,
    TableSource,
)


class TableDefinition(ABC):
    """One table of the program: what its node does, and the store that keeps its content where something needs that."""

    def __init__(self, operator: TableOperator, store: AnyStoreBuilder | None) -> None:
        self._operator = operator
        self._store = store
        self.sends_old_values = False

    @abstractmethod
    def getter(self) -> ValueGetter:
        """How to look up a value; makes sure that there is a store to look into."""

    @abstractmethod
    def enable_sending_old_values(self, force: bool) -> bool:
        """Ask for old values with each update; ``force`` materialises the table for it. Whether they will be sent."""

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """The table's own store, if it has one."""
        return (self._store,) if self._store else ()

    def operator(self) -> TableOperator:
        """What the table's node does, told its store, and whether somebody wants old values."""
        name = next((store.name for store in self.stores()), None)
        return replace(self._operator, store=name, send_old_values=self.sends_old_values)


class TopicTable(TableDefinition):
    """A table read from a topic or made of a stream: materialised when ``named`` by the user, or when needed."""

    def __init__(self, store: AnyStoreBuilder, named: bool) -> None:
        super().__init__(TableSource(), store)
        self._name = store.name
        self._materialized = named

    def getter(self) -> ValueGetter:
        """From here on the table has its store."""
        self._materialized = True
        return StoreGetter(self._name)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Possible once there is a store."""
        if force or self._materialized:
            self._materialized = self.sends_old_values = True
        return self.sends_old_values

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """None as long as nothing needed it."""
        return super().stores() if self._materialized else ()


class AggregatedTable(TableDefinition):
    """The result of an aggregation: always materialised."""

    def __init__(self, operator: TableOperator, store: AnyStoreBuilder) -> None:
        super().__init__(operator, store)
        self._name = store.name

    def getter(self) -> ValueGetter:
        """The aggregates themselves."""
        return StoreGetter(self._name)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Always possible."""
        self.sends_old_values = True
        return True


class DerivedTable(TableDefinition):
    """A table computed value by value from ``parents``: it has a store only when the user named one.

    ``view`` makes of look-ups in the parents one in this table.
    """

    def __init__(
        self,
        operator: TableOperator,
        store: AnyStoreBuilder | None,
        view: Callable[..., ValueGetter],
        *parents: TableDefinition,
    ) -> None:
        super().__init__(operator, store)
        self._view = view
        self._parents = parents

    def getter(self) -> ValueGetter:
        """Its own store, or those of the parents seen through the function."""
        if self._store is not None:
            return StoreGetter(self._store.name)
        return self._view(*(parent.getter() for parent in self._parents))

    def enable_sending_old_values(self, force: bool) -> bool:
        """From its own store, or computed from the old values of all its parents."""
        if self._store is not None or all(parent.enable_sending_old_values(force) for parent in self._parents):
            self.sends_old_values = True
        return self.sends_old_values


def filtered(
    parent: TableDefinition,
    store: AnyStoreBuilder | None,
    predicate: Callable[..., bool],
    negate: bool,
    with_key: bool,
) -> TableDefinition:
    """``filter`` and ``filter_not``."""
    table = DerivedTable(
        TableFilter(predicate, negate, with_key),
        store,
        lambda getter: FilterGetter(getter, predicate, negate, with_key),
        parent,
    )
    # A parent that can tell old values for nothing does: it spares tombstones for keys that never passed the filter.
    table.sends_old_values = parent.enable_sending_old_values(force=False)
    return table


def mapped(
    parent: TableDefinition, store: AnyStoreBuilder | None, mapper: Callable[..., Any], with_key: bool
) -> TableDefinition:
    """``map_values``."""
    return DerivedTable(
        TableMapValues(mapper, with_key), store, lambda getter: MapValuesGetter(getter, mapper, with_key), parent
    )
