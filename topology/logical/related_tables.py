"""Tables of which one comes from the other, so that one record changes both."""

from __future__ import annotations

from collections.abc import Collection

from penstock.common.graphs import reachable
from penstock.topology.logical.graph import LogicalNode


def keeper_of(node: LogicalNode, stores: Collection[str]) -> LogicalNode:
    """Returns the node that keeps the rows of the table of ``node``. If the table is computed from another one at each
    look-up, this is a node above it. ``stores``: those that are looked into; if they are several, returns ``node``."""
    if len(stores) != 1:
        return node
    # The merge of a cogrouped table has several parents; the store comes with the first of them.
    while len(node.parents) == 1 and not any(it.name in stores for it in node.kept_stores()):
        [node] = node.parents
    return node


def is_derived_from_same_record(nodes: Collection[LogicalNode]) -> bool:
    """True if a record of one node follows from the same record as one of another, with no topic between; also if
    ``nodes`` is a single node."""
    return len(nodes) == 1 or any(
        other in _node_and_ancestors(node) for node in nodes for other in nodes if other is not node
    )


def _node_and_ancestors(node: LogicalNode) -> set[LogicalNode]:
    """Returns ``node`` and all that is above it in its sub-topology."""
    return set(reachable([node], lambda each: () if each.reads_a_topic else each.parents))
