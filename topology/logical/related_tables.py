"""Tables of which one comes from the other, so that one record changes both."""

from __future__ import annotations

from collections.abc import Collection

from penstock.topology.logical.graph import LogicalNode, first_ancestor


def keeper_of(node: LogicalNode, stores: Collection[str]) -> LogicalNode:
    """Returns the node whose store is looked into for the table of ``node``. This is a node above it if the table is
    computed from another one at each look-up. If there are several ``stores``, returns ``node``."""
    if len(stores) != 1:
        return node
    return first_ancestor(node, lambda each: any(it.name in stores for it in each.kept_stores())) or node


def one_comes_from_the_other(nodes: Collection[LogicalNode]) -> bool:
    """True if a record of one node follows from the same record as one of another, with no topic between; also if
    ``nodes`` is one node, and so its own twin."""
    return len(nodes) == 1 or any(other in _sources_of(node) for node in nodes for other in nodes if other is not node)


def _sources_of(node: LogicalNode) -> set[LogicalNode]:
    """Returns ``node`` and all that is above it in its sub-topology."""
    found: set[LogicalNode] = set()
    todo = [node]
    while todo:
        if (current := todo.pop()) not in found:
            found.add(current)
            if not current.reads_a_topic:
                todo += current.parents
    return found
