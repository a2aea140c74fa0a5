"""Aggregates of one grouped stream: the repartition topic that they share, and the table that each of them results
in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.stream_base import NameLike, StreamHead
from penstock.topology.logical.graph import Operation, Repartition, new_repartition
from penstock.topology.logical.tables import StoredTable
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Grouped
from penstock.topology.physical.operators.operator import TableOperator

AGGREGATE = "KSTREAM-AGGREGATE-"
REDUCE = "KSTREAM-REDUCE-"


class GroupedAggregates:
    """Adds aggregates of grouped streams, windowed or not, to the graph. Mirrors ``GroupedStreamAggregateBuilder``."""

    def __init__(self, head: StreamHead, grouped: Grouped[Any, Any]) -> None:
        self.head = head
        self.grouped = grouped
        self._repartition: Repartition | None = None

    def use_up_store_name(self, materialized: Materialized[Any, Any] | None) -> None:
        """Use up a number if ``materialized`` is given without a name, as Kafka Streams does for ``count``: the
        generated names of all later nodes depend on it."""
        if materialized is not None and materialized.name is None:
            self.head.graph.names.store(AGGREGATE)

    def table(
        self,
        call: str,
        operator: TableOperator,
        prefix: str,
        how: Materialized[Any, Any],
        named: NameLike | None,
        store_of: Callable[[str], AnyStoreBuilder],
        key_serde_of: Callable[[Serde[Any]], Serde[Any]] | None = None,
    ) -> KTable[Any, Any]:
        """Add the table that ``operator`` keeps in ``store_of(name)``; names are those given, or made of ``prefix``.

        ``key_serde_of`` makes the serde of the table's keys from that of the store's, if they are windowed.
        """
        names = self.head.graph.names
        store = store_of(how.name or names.store(prefix))
        name = self.head.name(named, prefix)
        head = self._partitioned_by_key(store.name)
        head.note_user_call(f"{call} {name}", "Grouped")
        table = StoredTable(operator, store)
        node = Operation(name, table.operator, table.stores)
        head.graph.add(node, head.node)
        key_serde = store.key_serde
        if key_serde_of is not None and key_serde is not None:
            key_serde = key_serde_of(key_serde)
        below = head.moved(node, key_serde=key_serde, value_serde=store.value_serde, repartition_required=False)
        return KTable(below, table, how.name)

    def _partitioned_by_key(self, store_name: str) -> StreamHead:
        """Returns this stream partitioned by key: by one topic if the grouping has a name, else one per aggregate."""
        if not self.head.repartition_required:
            return self.head
        head, how = self.head, self.grouped
        fresh = new_repartition(head.graph, how.name or store_name, how.key_serde, how.value_serde)
        if self._repartition is None or how.name is None:
            self._repartition = fresh
        head.graph.add(self._repartition, head.node)
        return head.below(self._repartition)
