"""The definition of a ``KTable``: where its content can be looked up, and whether it sends old values.

Both are asked for by later operators, so these objects change until the topology is written: a table read from a topic
gets its store only when something looks into it, or when the user named it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.topology.physical.operators.operator import TableOperator, ValueGetter
from penstock.topology.physical.operators.table import (
    FilterGetter,
    MapValuesGetter,
    StoreGetter,
    TableFilter,
    TableMapValues,
)
from penstock.topology.physical.operators.transform_values import TableTransformValues, TransformValuesGetter
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKeySupplier


class TableDefinition(ABC):
    """One table of the program: its node's operator, and the store that keeps its content if something needs that."""

    def __init__(self, operator: TableOperator, store: AnyStoreBuilder | None) -> None:
        self._operator = operator
        self._store = store
        self.sends_old_values = False

    @property
    def materialized(self) -> bool:
        """True if its own store holds its content: then values are looked up there, and old values are at hand. False
        for a table whose store is for something else."""
        return self._store is not None

    def getter(self) -> ValueGetter:
        """Returns the look-up of a value. Afterwards there is a store to look into, the table's or its parents'."""
        if self._store is not None and self.materialized:
            return StoreGetter(self._store.name, isinstance(self._store, VersionedKeyValueStoreBuilder))
        return self._getter_without_store()

    @property
    def history_retention_ms(self) -> int | None:
        """Time (ms) for which earlier values can be looked up; None, if only the present ones can be."""
        if not self.materialized:
            return self._history_without_store()
        return self._store.history_retention_ms if isinstance(self._store, VersionedKeyValueStoreBuilder) else None

    @property
    def passes_for_versioned(self) -> bool:
        """True if filters and ``suppress`` downstream of it take it for a versioned table, as Kafka Streams does."""
        return self.history_retention_ms is not None

    def enable_sending_old_values(self, force: bool) -> bool:
        """Ask for old values with updates; ``force`` materialises a table for it. Returns True if they will be sent."""
        if self.materialized or self._old_values_without_store(force):
            self.sends_old_values = True
        return self.sends_old_values

    @abstractmethod
    def _getter_without_store(self) -> ValueGetter:
        """Returns the look-up of a value while the table is not materialised."""

    @abstractmethod
    def _old_values_without_store(self, force: bool) -> bool:
        """Returns True if it can send old values though it is not materialised; ``force`` makes sure that it can."""

    def _history_without_store(self) -> int | None:
        """Returns :attr:`history_retention_ms` while the table is not materialised."""
        return None

    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        """Returns the table's own store, if it has one."""
        return (self._store,) if self._store else ()

    def operator(self) -> TableOperator:
        """Returns the operator of the table's node, with its store, and with old values if they were asked for."""
        name = next((store.name for store in self.stores()), None)
        return replace(self._operator, store=name, send_old_values=self.sends_old_values)


class StoredTable(TableDefinition):
    """A table that a store alone can hold: read from a topic, made of a stream, or aggregated.

    ``materialized``: True from the beginning for aggregates and what the user named; otherwise once something needs it.
    """

    def __init__(self, operator: TableOperator, store: AnyStoreBuilder, *, materialized: bool = True) -> None:
        super().__init__(operator, store)
        self._materialized = materialized

    @property
    @override
    def materialized(self) -> bool:
        return self._materialized

    @override
    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        return super().stores() if self._materialized else ()

    @override
    def _getter_without_store(self) -> ValueGetter:
        self._materialized = True
        return self.getter()

    @override
    def _old_values_without_store(self, force: bool) -> bool:
        self._materialized = force
        return force


class DerivedTable(TableDefinition):
    """A table computed value by value from ``parents``: it has a store only if the user named one.

    ``view`` turns look-ups in the parents into one in this table.
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

    @property
    @override
    def passes_for_versioned(self) -> bool:
        if self.materialized:
            return super().passes_for_versioned
        return all(parent.passes_for_versioned for parent in self._parents)

    @override
    def _getter_without_store(self) -> ValueGetter:
        return self._view(*(parent.getter() for parent in self._parents))

    @override
    def _old_values_without_store(self, force: bool) -> bool:
        return all(parent.enable_sending_old_values(force) for parent in self._parents)

    @override
    def _history_without_store(self) -> int | None:
        histories = [parent.history_retention_ms for parent in self._parents]
        known = [each for each in histories if each is not None]
        return min(known) if known and len(known) == len(histories) else None


def filtered(
    parent: TableDefinition,
    store: AnyStoreBuilder | None,
    predicate: Callable[..., bool],
    negate: bool,
    with_key: bool,
) -> TableDefinition:
    """Returns the table of ``filter`` or ``filter_not``."""
    table = DerivedTable(
        TableFilter(predicate, negate, with_key, of_versions=parent.passes_for_versioned),
        store,
        lambda getter: FilterGetter(getter, predicate, negate, with_key),
        parent,
    )
    # A parent that can send old values at no cost does: it spares tombstones for keys that never passed the filter.
    table.sends_old_values = parent.enable_sending_old_values(force=False)
    return table


def transformed(
    parent: TableDefinition,
    store: AnyStoreBuilder | None,
    supplier: ValueTransformerWithKeySupplier[Any, Any, Any],
    store_names: tuple[str, ...],
) -> TableDefinition:
    """Returns the table of ``transform_values``."""

    def view(getter: ValueGetter) -> ValueGetter:
        if store_names:
            raise TopologyError(
                f"a table made by transform_values with stores ({', '.join(store_names)}) is joined, or looked into: "
                "keep it in a store of its own (materialized=Materialized.as_(...)), for it cannot be transformed "
                "again at each look-up"
            )
        return TransformValuesGetter(getter, supplier)

    return DerivedTable(TableTransformValues(supplier, store_names), store, view, parent)


def mapped(
    parent: TableDefinition, store: AnyStoreBuilder | None, mapper: Callable[..., Any], with_key: bool
) -> TableDefinition:
    """Returns the table of ``map_values``."""
    return DerivedTable(
        TableMapValues(mapper, with_key), store, lambda getter: MapValuesGetter(getter, mapper, with_key), parent
    )
