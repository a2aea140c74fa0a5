"""The table of a cogroup: aggregated by several nodes into one store, forwarded by a node below them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.topology.logical.tables import TableDefinition
from penstock.topology.physical.operators.operator import TableOperator, ValueGetter
from penstock.topology.physical.operators.table import StoreGetter


class CogroupedTable(TableDefinition):
    """``operator`` is that of the node below the aggregates, which bring the store along (:meth:`part`).

    ``of_versions``: True if all of its streams come from versioned tables. Then Kafka Streams takes a cogroup in
    windows for versioned, too, although its store is not.
    """

    def __init__(self, operator: TableOperator, store: AnyStoreBuilder, *, of_versions: bool) -> None:
        super().__init__(operator, store)
        self._shared = store
        self._of_versions = of_versions

    def part(self, aggregate: TableOperator) -> Callable[[], TableOperator]:
        """Returns the maker of an aggregate's operator, called when its node is written: old values are known then."""
        return lambda: replace(aggregate, store=self._shared.name, send_old_values=self.sends_old_values)

    @property
    @override
    def passes_for_versioned(self) -> bool:
        in_windows = isinstance(self._shared, ExpiringStoreBuilder)
        return self._of_versions if in_windows else super().passes_for_versioned

    @override
    def stores(self) -> tuple[AnyStoreBuilder, ...]:
        return ()

    @override
    def _getter_without_store(self) -> ValueGetter:
        return StoreGetter(self._shared.name)

    @override
    def _old_values_without_store(self, force: bool) -> bool:
        return True
