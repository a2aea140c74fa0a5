"""``GlobalKTable`` and ``add_global_store``: topics that every host keeps in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from penstock.common.errors import TopologyError
from penstock.state.builders import StoreBuilder
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.versioned.supplier import VersionedBytesStoreSupplier
from penstock.topology.dsl.stream_base import NameLike, StreamHead
from penstock.topology.logical.global_stores import GlobalStoreNode
from penstock.topology.logical.graph import LogicalGraph, Operation, require_same_graph
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed
from penstock.topology.physical.operators.global_tables import GlobalProcess, KeySelector, StreamGlobalTableJoin
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.operators.table import TableSource
from penstock.topology.processor_api.processor import ProcessorSupplier

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """The latest value of each key of a topic. Every host keeps all keys. Mirrors ``GlobalKTable``.

    Made by :meth:`StreamsBuilder.global_table`. A stream is joined with it by any key, whatever numbers of partitions
    the topics have (:meth:`KStream.join`).
    """

    def __init__(self, graph: LogicalGraph, store_name: str, queryable_store_name: str | None) -> None:
        self._graph = graph
        self._store_name = store_name
        self._queryable_store_name = queryable_store_name

    @property
    def queryable_store_name(self) -> str | None:
        """The name by which the table's store can be queried: the one the user gave, else None."""
        return self._queryable_store_name


_NO_STREAM_TIME = (
    "every host reads the topic by itself, in an order of its own, and nothing is downstream: there is no stream time "
    "by which its rows would go at once everywhere. Give the TTL to the table that the topic is written from"
)


def global_table_of(
    graph: LogicalGraph, topic: str, read: Consumed[Any, Any], kept: Materialized[Any, Any]
) -> GlobalKTable[Any, Any]:
    """Adds the table of ``global_table`` to ``graph``, and returns it."""
    if isinstance(kept.supplier, VersionedBytesStoreSupplier):
        raise TopologyError(f"global_table {topic!r}: a global table cannot be versioned (store {kept.name!r})")
    kept.refuse_ttl(f"global_table {topic!r}", _NO_STREAM_TIME)
    how = replace(
        read, key_serde=read.key_serde or kept.key_serde, value_serde=read.value_serde or kept.value_serde
    )  # fmt: skip
    store_name = kept.name or graph.names.store(f"{topic}-")
    # The topic is its changelog, and nothing is downstream: there is nothing to cache for.
    own = replace(kept, key_serde=how.key_serde, value_serde=how.value_serde, caching=False)
    store = own.builder(TimestampedKeyValueStoreBuilder, store_name, None, None)
    _add(graph, topic, how, TableSource(store=store_name), store, "global_table")
    return GlobalKTable(graph, store_name, kept.name)


def add_global_store_of(
    graph: LogicalGraph,
    builder: StoreBuilder[Any, Any],
    topic: str,
    consumed: Consumed[Any, Any],
    supplier: ProcessorSupplier[Any, Any, Any, Any],
) -> None:
    """Adds the store of ``add_global_store``, and its processor, to ``graph``."""
    if builder.changes_by_itself:
        raise TopologyError(f"add_global_store: store {builder.name!r} cannot have a TTL: {_NO_STREAM_TIME}")
    operator = GlobalProcess(supplier, (builder.name,))
    _add(graph, topic, consumed, operator, builder.with_caching_disabled(), "add_global_store")


def _add(
    graph: LogicalGraph,
    topic: str,
    consumed: Consumed[Any, Any],
    operator: Operator,
    store: StoreBuilder[Any, Any],
    call: str,
) -> None:
    source_name = graph.names.processor_or(consumed.name, "KSTREAM-SOURCE-", suffix="-source")
    name = graph.names.processor_or(consumed.name, "KTABLE-SOURCE-")
    graph.add(GlobalStoreNode(name, source_name, topic, consumed, operator, store, call), graph.root)


def join_global_table(
    head: StreamHead,
    table: GlobalKTable[Any, Any],
    key_selector: KeySelector,
    joiner: Callable[..., Any],
    with_key: bool,
    named: NameLike | None,
    *,
    left: bool,
) -> StreamHead:
    """Adds ``join`` or ``left_join`` of the stream at ``head`` with a global table: nothing is repartitioned."""
    require_same_graph(head.graph, table._graph, "left_join" if left else "join")
    # An inner join has this prefix, too.
    name = head.name(named, "KSTREAM-LEFTJOIN-")
    operator = StreamGlobalTableJoin(table._store_name, key_selector, joiner, with_key, left)
    node = Operation(name, lambda: operator)
    node.relaxes_null_keys = left
    head.graph.add(node, head.node)
    return head.moved(node, value_serde=None)
