"""Facts about the way of keys through a topology that several analyses need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from penstock.common.graphs import reachable
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, Topology


def nodes_above(
    nodes: Iterable[ProcessorNode], by_name: Mapping[str, Node], keeps_key: Callable[[ProcessorNode], bool]
) -> Iterator[Node]:
    """Yields the nodes from which records reach ``nodes``, each once. The walk upwards ends at sources, and at
    processors for which ``keeps_key`` returns False; these are included."""

    def parents(node: Node) -> Iterable[Node]:
        if isinstance(node, ProcessorNode) and keeps_key(node):
            return [by_name[name] for name in node.parents]
        return ()

    return reachable([by_name[name] for node in nodes for name in node.parents], parents)


def topics_with_partitioners(topology: Topology) -> Iterator[tuple[str, bool]]:
    """Yields the topics that ``topology`` writes by a partitioner that is not Kafka's: a user's function, or that of a
    foreign-key join. With each comes True if it is internal; then the name is that without the application's."""
    for sub in topology.every_subtopology:
        for node in sub.nodes:
            if isinstance(node, SinkNode) and node.partitioner is not None and isinstance(node.topic, str):
                yield node.topic, node.internal
