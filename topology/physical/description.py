"""The description of a topology: its parts, and the text of Kafka Streams' ``Topology.describe()`` to the letter, which
tools draw pictures of and people compare."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from penstock.common.java_collections import TreeSet, hash_order
from penstock.topology.physical.topology import Node, ProcessorNode, SourceNode, Subtopology, Topology


@dataclass(frozen=True)
class DescribedNode:
    """A node. ``predecessors`` and ``successors`` are the names of the nodes above and below it, in the order of the
    text. Mirrors ``TopologyDescription.Node``."""

    name: str
    predecessors: tuple[str, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True)
class DescribedSource(DescribedNode):
    """A node that reads ``topics``, or the topics whose names match ``topic_pattern``. Mirrors
    ``TopologyDescription.Source``."""

    topics: tuple[str, ...]
    topic_pattern: re.Pattern[str] | None

    def __str__(self) -> str:
        topics = _listed(self.topics) if self.topic_pattern is None else self.topic_pattern.pattern
        return f"Source: {self.name} (topics: {topics}){_below(self)}"


@dataclass(frozen=True)
class DescribedProcessor(DescribedNode):
    """An operator, or a processor of a user, with the names of its ``stores``. Mirrors
    ``TopologyDescription.Processor``."""

    stores: tuple[str, ...]

    def __str__(self) -> str:
        return f"Processor: {self.name} (stores: {_listed(self.stores)}){_below(self)}{_above(self)}"


@dataclass(frozen=True)
class DescribedSink(DescribedNode):
    """A node that writes to ``topic``; if that is None, ``topic_name_extractor`` names the topic of each record.
    Mirrors ``TopologyDescription.Sink``."""

    topic: str | None
    topic_name_extractor: Any

    def __str__(self) -> str:
        return f"Sink: {self.name} ({self._target}){_above(self)}"

    @property
    def _target(self) -> str:
        if self.topic is not None:
            return f"topic: {self.topic}"
        extractor = self.topic_name_extractor
        return f"extractor class: {getattr(extractor, '__qualname__', type(extractor).__qualname__)}"


@dataclass(frozen=True)
class DescribedSubtopology:
    """Nodes that exchange records without a topic between them: those with more nodes below them first. Mirrors
    ``TopologyDescription.Subtopology``."""

    id: int
    nodes: tuple[DescribedNode, ...]

    def __str__(self) -> str:
        return f"Sub-topology: {self.id}\n{_lines(self.nodes)}"


@dataclass(frozen=True)
class DescribedGlobalStore:
    """A global store: the node that reads its topic, and the one that keeps it. Mirrors
    ``TopologyDescription.GlobalStore``."""

    id: int
    source: DescribedSource
    processor: DescribedProcessor

    def __str__(self) -> str:
        nodes = _lines((self.source, self.processor))
        return f"Sub-topology: {self.id} for global store (will not generate tasks)\n{nodes}"


class TopologyDescription(str):
    """The text of Kafka Streams' ``Topology.describe()``, to the letter, and the parts that it describes. Mirrors
    ``TopologyDescription``, in which neighbours are nodes; here they are names."""

    Node: TypeAlias = DescribedNode
    Source: TypeAlias = DescribedSource
    Processor: TypeAlias = DescribedProcessor
    Sink: TypeAlias = DescribedSink
    Subtopology: TypeAlias = DescribedSubtopology
    GlobalStore: TypeAlias = DescribedGlobalStore

    subtopologies: tuple[DescribedSubtopology, ...]
    global_stores: tuple[DescribedGlobalStore, ...]

    def __new__(
        cls, subtopologies: Iterable[DescribedSubtopology] = (), global_stores: Iterable[DescribedGlobalStore] = ()
    ) -> Self:
        """Returns the description of these parts."""
        subs, stores = tuple(subtopologies), tuple(global_stores)
        texts = [(sub.id, f"  {sub}\n") for sub in subs] + [(store.id, f"  {store}") for store in stores]
        made = super().__new__(cls, "Topologies:\n " + "".join(text for _, text in sorted(texts)))
        made.subtopologies, made.global_stores = subs, stores
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Sends the text alone to other processes: a function that names topics may be known here only."""
        return str, (str(self),)


def describe(topology: Topology) -> TopologyDescription:
    """Returns the description of every sub-topology, with its nodes, stores, topics and edges.

    Nodes with more below them come first, nodes with equally many by name.
    """
    return TopologyDescription(
        (DescribedSubtopology(sub.id, _nodes(sub)) for sub in topology.subtopologies),
        (_global_store(sub) for sub in topology.global_subtopologies),
    )


def _global_store(sub: Subtopology) -> DescribedGlobalStore:
    source, processor = _nodes(sub)
    assert isinstance(source, DescribedSource)
    assert isinstance(processor, DescribedProcessor)
    return DescribedGlobalStore(sub.id, source, processor)


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


def _nodes(sub: Subtopology) -> tuple[DescribedNode, ...]:
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
    return tuple(map(_node, ordered))


def _node(described: _Described) -> DescribedNode:
    node = described.node
    above = tuple(each.node.name for each in described.predecessors)
    below = tuple(each.node.name for each in described.successors)
    if isinstance(node, SourceNode):
        topics = node.topics if node.pattern is None else ()
        return DescribedSource(node.name, above, below, topics, node.pattern)
    if isinstance(node, ProcessorNode):
        return DescribedProcessor(node.name, above, below, node.stores)
    topic, extractor = (node.topic, None) if isinstance(node.topic, str) else (None, node.topic)
    return DescribedSink(node.name, above, below, topic, extractor)


def _lines(nodes: Iterable[DescribedNode]) -> str:
    return "".join(f"    {node}\n" for node in nodes)


def _below(node: DescribedNode) -> str:
    return f"\n      --> {', '.join(node.successors) or 'none'}"


def _above(node: DescribedNode) -> str:
    return f"\n      <-- {', '.join(node.predecessors) or 'none'}"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(hash_order(names))}]"
