"""The text of ``Topology.describe()``, to the letter: tools draw pictures of it, and people compare it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.common.java_collections import TreeSet, hash_order
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode, Subtopology, Topology


def describe(topology: Topology) -> str:
    """Returns the text for every sub-topology, with its nodes, stores, topics and edges.

    Nodes with more below them come first, nodes with equally many by name.
    """
    global_ones = {sub.id for sub in topology.global_subtopologies}
    described = (
        f"  {_global_store(sub)}" if sub.id in global_ones else f"  {_subtopology(sub)}\n"
        for sub in topology.every_subtopology
    )
    return "Topologies:\n " + "".join(described)


@dataclass(eq=False)
class _Described:
    node: Node
    size: int = 1
    predecessors: TreeSet[_Described] = field(default_factory=lambda: TreeSet(_before))
    successors: TreeSet[_Described] = field(default_factory=lambda: TreeSet(_before))

    def grow(self, delta: int) -> None:
        """Count ``delta`` more paths that begin here, and in all nodes above."""
        self.size += delta
        for predecessor in self.predecessors:
            predecessor.grow(delta)


def _before(one: _Described, other: _Described) -> bool:
    return (-one.size, one.node.name) < (-other.size, other.node.name)


def _subtopology(sub: Subtopology) -> str:
    return f"Sub-topology: {sub.id}\n{_nodes(sub)}"


def _global_store(sub: Subtopology) -> str:
    return f"Sub-topology: {sub.id} for global store (will not generate tasks)\n{_nodes(sub)}"


def _nodes(sub: Subtopology) -> str:
    nodes = {node.name: node for node in sub.nodes}
    # Sizes grow while edges are drawn, and edges are sorted by the sizes of that moment: the order of drawing shows.
    described = {name: _Described(nodes[name]) for name in hash_order(hash_order(nodes))}
    for each in described.values():
        for parent in () if isinstance(each.node, SourceNode) else each.node.parents:
            predecessor = described[parent]
            each.predecessors.add(predecessor)
            predecessor.successors.add(each)
            predecessor.grow(each.size)
    ordered = sorted(described.values(), key=lambda each: (-each.size, each.node.name))
    return "".join(f"    {_node(each)}\n" for each in ordered)


def _node(described: _Described) -> str:
    node = described.node
    below = f"\n      --> {_names(described.successors)}"
    above = f"\n      <-- {_names(described.predecessors)}"
    if isinstance(node, SourceNode):
        topics = _listed(node.topics) if node.pattern is None else node.pattern.pattern
        return f"Source: {node.name} (topics: {topics}){below}"
    if isinstance(node, ProcessorNode):
        return f"Processor: {node.name} (stores: {_listed(node.stores)}){below}{above}"
    return f"Sink: {node.name} ({_target(node)}){above}"


def _target(node: SinkNode) -> str:
    if isinstance(node.topic, str):
        return f"topic: {node.topic}"
    return f"extractor class: {getattr(node.topic, '__qualname__', type(node.topic).__qualname__)}"


def _names(nodes: Iterable[_Described]) -> str:
    return ", ".join(each.node.name for each in nodes) or "none"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(hash_order(names))}]"
