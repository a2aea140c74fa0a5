"""Adds a cogroup to the graph: a node for each of its streams, all over one store, and one below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.dsl.stream_base import NameLike, StreamHead, given_name
from penstock.topology.logical.cogrouped_table import CogroupedTable
from penstock.topology.logical.graph import LogicalGraph, Operation, Repartition, are_all_versioned, new_repartition
from penstock.topology.physical.operators.cogroup import CogroupMerge
from penstock.topology.physical.operators.operator import TableOperator

if TYPE_CHECKING:
    from penstock.topology.dsl.kgrouped_stream import KGroupedStream

AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
MERGE = "COGROUPKSTREAM-MERGE-"

Aggregator = Callable[[Any, Any, Any], Any]
"""``(key, value, aggregate)``"""


class Cogroup:
    """The streams of a cogroup with their aggregators, in the order in which they were added."""

    def __init__(self) -> None:
        self.aggregators: dict[KGroupedStream[Any, Any], Aggregator] = {}
        # A stream is repartitioned once, however often it is aggregated.
        self._repartitions: dict[KGroupedStream[Any, Any], Repartition] = {}

    @property
    def graph(self) -> LogicalGraph:
        """The graph of all of its streams."""
        return next(iter(self.aggregators))._aggregates.head.graph

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The serde of the keys of all streams; None if they differ."""
        serdes = [grouped._aggregates.grouped.key_serde for grouped in self.aggregators]
        return serdes[0] if all(serde == serdes[0] for serde in serdes) else None

    def aggregated(
        self, store: AnyStoreBuilder, named: NameLike | None, operator: Callable[[Aggregator], TableOperator]
    ) -> tuple[StreamHead, CogroupedTable]:
        """Add the nodes; ``operator`` makes their operators of their aggregators. Returns the head and the table."""
        graph, name = self.graph, given_name(named)
        heads = [self._partitioned_by_key(grouped, store.name) for grouped in self.aggregators]
        of_versions = are_all_versioned(head.node for head in heads)
        table = CogroupedTable(CogroupMerge(), store, of_versions=of_versions)
        nodes: list[Operation] = []
        for number, (head, aggregator) in enumerate(zip(heads, self.aggregators.values(), strict=True)):
            node_name = graph.names.processor_or(name, AGGREGATE, suffix=f"-cogroup-agg-{number}")
            head.note_user_call(f"cogroup {node_name}", "Grouped")
            node = Operation(node_name, table.part(operator(aggregator)), lambda: (store,))
            graph.add(node, head.node)
            nodes.append(node)
        merge = Operation(graph.names.processor_or(name, MERGE, suffix="-cogroup-merge"), table.operator)
        graph.add(merge, *nodes)
        sources = graph.copartition(*(head.sources for head in heads))
        return StreamHead(graph, merge, store.key_serde, store.value_serde, sources), table

    def _partitioned_by_key(self, grouped: KGroupedStream[Any, Any], store_name: str) -> StreamHead:
        head, how = grouped._aggregates.head, grouped._aggregates.grouped
        if not head.repartition_required:
            return head
        # The names of a new topic are used up even if the earlier one is used.
        fresh = new_repartition(head.graph, how.name or store_name, how.key_serde, how.value_serde)
        if grouped not in self._repartitions:
            self._repartitions[grouped] = fresh
            head.graph.add(fresh, head.node)
        return head.below(self._repartitions[grouped])
