"""Finds the stores that may be flushed while records are processed: only their own sinks get their updates.

An update that a flush forwards belongs to its commit. If it reaches another store, or a processor with state, it must
arrive there before the next record. If it shares a node or a topic with other records, it must be sent before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.common.graphs import reachable
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode


def flushed_during_processing(
    nodes: Sequence[Node], children: Mapping[str, Sequence[Node]], forwarded_by: Mapping[str, Sequence[str]]
) -> frozenset[str]:
    """Returns the stores that no other store's flush reaches, and whose own flush reaches nothing but stateless
    operators and sinks of its own. ``forwarded_by``: by store, the nodes from which its flush forwards."""
    reached = {store: _reached(forwarders, children) for store, forwarders in forwarded_by.items()}
    written = {store for nodes in reached.values() for node in nodes.values() for store in _stores(node)}
    return frozenset(
        store
        for store, forwarders in forwarded_by.items()
        if store not in written and _is_isolated(reached[store], forwarders, nodes)
    )


def written_by_flushes(
    children: Mapping[str, Sequence[Node]], forwarded_by: Mapping[str, Sequence[str]]
) -> frozenset[str]:
    """Returns the stores that the flush of another one changes: the effect of a record reaches them only when a commit
    begins."""
    reached = [_reached(forwarders, children) for forwarders in forwarded_by.values()]
    return frozenset(store for nodes in reached for node in nodes.values() for store in _written(node))


def user_code_behind(children: Mapping[str, Sequence[Node]], forwarded_by: Mapping[str, Sequence[str]]) -> bool:
    """Returns True if a flush of these stores reaches a function or an object of the user's, or another store. An error
    there must name the record that the update came from."""
    return any(_may_fail(node) for it in forwarded_by.values() for node in _reached(it, children).values())


def _may_fail(node: Node) -> bool:
    if isinstance(node, SinkNode):
        return callable(node.topic) or node.partitioner is not None
    return isinstance(node, ProcessorNode) and bool(
        node.stores or node.operator.functions or node.operator.runs_user_objects
    )


def _written(node: Node) -> Iterator[str]:
    if isinstance(node, ProcessorNode):
        yield from (store for store in node.stores if store not in node.operator.stores_looked_into)


def _reached(forwarders: Iterable[str], children: Mapping[str, Sequence[Node]]) -> dict[str, Node]:
    below = [child for forwarder in forwarders for child in children[forwarder]]
    return {node.name: node for node in reachable(below, lambda node: children[node.name])}


def _is_isolated(reached: Mapping[str, Node], forwarders: Sequence[str], nodes: Sequence[Node]) -> bool:
    inside = {*reached, *forwarders}
    for node in reached.values():
        if isinstance(node, ProcessorNode) and (node.stores or node.operator.runs_user_objects):
            return False
        if not isinstance(node, SourceNode) and not inside.issuperset(node.parents):
            return False
    own = [node for node in reached.values() if isinstance(node, SinkNode)]
    others = [node for node in nodes if isinstance(node, SinkNode) and node.name not in reached]
    return not any(_may_be_the_same(one, other) for one in own for other in others)


def _stores(node: Node) -> tuple[str, ...]:
    return node.stores if isinstance(node, ProcessorNode) else ()


def _may_be_the_same(one: SinkNode, other: SinkNode) -> bool:
    """Returns True if two sinks may write the same topic; one that a function chooses may be any."""
    return callable(one.topic) or callable(other.topic) or one.topic == other.topic
