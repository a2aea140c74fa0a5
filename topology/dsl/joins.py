"""Adds joins of streams with tables to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.versioned.join_buffer import JoinBufferBuilder
from penstock.topology.dsl.stream_base import StreamHead
from penstock.topology.logical.graph import Operation, Repartition, new_repartition, require_same_graph
from penstock.topology.logical.tables import TableDefinition
from penstock.topology.options.options import Joined
from penstock.topology.physical.operators.join import StreamTableJoin
from penstock.topology.physical.operators.versioned_join import BufferedStreamTableJoin


def partitioned_by_key(
    head: StreamHead, how: Joined[Any, Any, Any], shared: Repartition | None
) -> tuple[StreamHead, Repartition | None]:
    """Returns the stream at ``head`` partitioned by its key, and the repartition topic for its next join.

    Joins without a name share one: ``shared``, if there was such a join before.
    """
    if not head.repartition_required:
        return head, shared
    key_serde, value_serde = how.key_serde or head.key_serde, how.value_serde or head.value_serde
    # The names of a new topic are used up even if the earlier one is used.
    fresh = new_repartition(head.graph, how.name or head.node.name, key_serde, value_serde)
    if shared is None or how.name is not None:
        head.graph.add(fresh, head.node)
        shared = fresh
    return head.below(shared), shared


def join_table(
    head: StreamHead,
    table_head: StreamHead,
    table: TableDefinition,
    joiner: Callable[..., Any],
    with_key: bool,
    how: Joined[Any, Any, Any],
    *,
    left: bool,
) -> StreamHead:
    """Adds ``join`` or ``left_join`` of the stream at ``head``, which is partitioned by its key, with a table."""
    call = "left_join" if left else "join"
    require_same_graph(head.graph, table_head.graph, call)
    sources = head.graph.copartition(head.sources, table_head.sources)
    name = head.graph.names.processor_or(how.name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    head.note_user_call(f"{call} {name}", "Joined")
    operator: StreamTableJoin = StreamTableJoin(table.getter(), joiner, with_key, left)
    stores: tuple[AnyStoreBuilder, ...] = ()
    if how.grace_period_ms is not None:
        _check_history(table, how.grace_period_ms, f"{call} {name}")
        buffer = _join_buffer(head, how, name)
        operator = BufferedStreamTableJoin(table.getter(), joiner, with_key, left, buffer=buffer.name)
        stores = (buffer,)
    node = Operation(name, lambda: operator, lambda: stores)
    node.relaxes_null_keys = left
    head.graph.add(node, head.node)
    key_serde = how.key_serde or head.key_serde
    return head.moved(node, key_serde=key_serde, value_serde=None, sources=sources, repartition_required=False)


def _check_history(table: TableDefinition, grace_ms: int, join: str) -> None:
    history_ms = table.history_retention_ms
    if history_ms is None:
        raise TopologyError(
            f"{join}: a grace period needs a versioned table, which can be asked what it held then: give the table "
            "Materialized.as_(Stores.persistent_versioned_key_value_store(name, history_retention))"
        )
    if history_ms < grace_ms:
        raise TopologyError(
            f"{join}: a grace period of {grace_ms} ms needs a history as long, but that of the table is {history_ms} ms"
        )


def _join_buffer(head: StreamHead, how: Joined[Any, Any, Any], name: str) -> JoinBufferBuilder:
    key_serde, value_serde = how.key_serde or head.key_serde, how.value_serde or head.value_serde
    assert how.grace_period_ms is not None
    return JoinBufferBuilder(f"{name}-Buffer", key_serde, value_serde, grace_ms=how.grace_period_ms)
