"""Decides, when a task is composed, which operators that call out keep the order of the input, and if the task may
commit while their calls run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.common.graphs import reachable
from penstock.state.builders import AnyStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.topology.options.calls import CallOrder
from penstock.topology.physical.operators.aggregate import StreamAggregate, StreamCount, StreamReduce
from penstock.topology.physical.operators.calls import CallOperator
from penstock.topology.physical.operators.global_tables import StreamGlobalTableJoin
from penstock.topology.physical.operators.join import StreamTableJoin
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.operators.table import TableFilter, TableMapValues, TableSource, TableToStream
from penstock.topology.physical.operators.wrapped import Wrapped
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode

_KEY_BY_KEY = (
    StreamCount,
    StreamAggregate,
    StreamReduce,
    StreamGlobalTableJoin,
    StreamTableJoin,
    TableSource,
    TableFilter,
    TableMapValues,
    TableToStream,
)
"""Operators with a store for which only the order of the records of one key counts, unless rows expire by time."""


def unwrapped(node: Node) -> Operator | None:
    """Returns the operator of ``node``, without the processor of a wrapper; None if it has none."""
    if not isinstance(node, ProcessorNode):
        return None
    return node.operator.inner if isinstance(node.operator, Wrapped) else node.operator


def emits_in_order(node: Node, children: Mapping[str, Sequence[Node]], stores: Mapping[str, AnyStoreBuilder]) -> bool:
    """Returns True if ``node`` calls out and its results are forwarded in the order of the input, because its options
    demand it, or because a node downstream depends on stream time, or on the order across keys."""
    operator = unwrapped(node)
    if not isinstance(operator, CallOperator):
        return False
    if operator.calls.order is CallOrder.PARTITION:
        return True
    below = reachable(children[node.name], lambda each: children[each.name])
    return any(_needs_order(each, stores) for each in below)


def _needs_order(node: Node, stores: Mapping[str, AnyStoreBuilder]) -> bool:
    if isinstance(node, SinkNode):
        return node.internal  # a reader of it may depend on the order
    if not isinstance(node, ProcessorNode) or isinstance(node.operator, CallOperator):
        return False
    if node.operator.runs_user_objects:
        return True
    own = [stores[name] for name in node.stores if name in stores]
    by_time = any(store.changes_by_itself or isinstance(store, VersionedKeyValueStoreBuilder) for store in own)
    return by_time or (bool(own) and not isinstance(node.operator, _KEY_BY_KEY))


def holds_what_it_took(nodes: Sequence[Node], children: Mapping[str, Sequence[Node]]) -> bool:
    """Returns True if a node that keeps something of its records is upstream of one that calls out.

    Suppose that a commit covered the record that such a node has taken, but not the call that followed from it. After a
    crash the task would read the record again, but the node would know it already and not forward it, so the call would
    never be made.
    """
    for node in nodes:
        operator = node.operator if isinstance(node, ProcessorNode) else None
        if operator is None or isinstance(operator, CallOperator):
            continue
        keeps = operator.runs_user_objects or not operator.stores_looked_into.issuperset(operator.stores)
        if keeps and any(
            isinstance(unwrapped(each), CallOperator) for each in reachable([node], lambda each: children[each.name])
        ):
            return True
    return False


def stores_behind_calls(nodes: Sequence[Node], children: Mapping[str, Sequence[Node]]) -> frozenset[str]:
    """Returns the stores that a record reaches only when a call has ended."""
    calling = [node for node in nodes if isinstance(unwrapped(node), CallOperator)]
    below = reachable([child for node in calling for child in children[node.name]], lambda each: children[each.name])
    return frozenset(store for node in below if isinstance(node, ProcessorNode) for store in node.stores)
