"""The logical graph: what the user's calls add, what the optimiser changes, what is then written as physical nodes.

Nodes are written parents first and otherwise in the order of their priority (the order of the calls). The order decides
the numbers of sub-topologies, hence the names of tasks.
"""

from __future__ import annotations

import copy
import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.naming import REPARTITION_SUFFIX, NameFactory, checked_name, looks_generated
from penstock.topology.options.options import Consumed, Produced
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.operators.stateless import DropNullKeys
from penstock.topology.physical.topology import ProcessorNode, RepartitionTopic, SinkNode, SourceNode, WrittenBy
from penstock.topology.physical.writer import TopologyWriter
from penstock.topology.processor_api.processor import StreamPartitioner, TopicNameExtractor


class LogicalNode:
    """One node; subclasses define what is written for it."""

    key_changing = False
    """True if records leave with another key, so that a repartition may be needed below.

    The optimiser may move that repartition up to this node.
    """
    value_changing = False
    merging = False
    reads_a_topic = False
    """True if what it forwards comes from a topic, even if its parents have written that topic."""
    relaxes_null_keys = False
    """True for an operator that keeps records with a null key: repartitions above it must not drop them."""
    of_versions: bool | None = None
    """True if what it forwards comes from a versioned table; None: if that of all its parents does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.priority = -1
        self.parents: dict[LogicalNode, None] = {}
        self.children: dict[LogicalNode, None] = {}

    def add_child(self, child: LogicalNode) -> None:
        """Draw an edge; if there is one already, nothing changes."""
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: LogicalNode) -> None:
        """Erase an edge."""
        self.children.pop(child, None)
        child.parents.pop(self, None)

    def kept_stores(self) -> tuple[AnyStoreBuilder, ...]:
        """Returns the stores that its operator fills."""
        return ()

    @property
    def parent_names(self) -> tuple[str, ...]:
        """The physical nodes that feed this one."""
        return tuple(parent.name for parent in self.parents)

    def write(self, writer: TopologyWriter) -> None:
        """Add the physical nodes; the root has none."""


class StreamSourceNode(LogicalNode):
    """``stream``: one source."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        consumed: Consumed[Any, Any],
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        super().__init__(name)
        self.topics = topics
        self.consumed = consumed
        self.pattern = pattern

    @override
    def write(self, writer: TopologyWriter) -> None:
        topics = self.pattern or (self.topics[0] if len(self.topics) == 1 else list(self.topics))
        source = _source(self.name, self.topics, self.consumed, f"stream({topics!r})")
        writer.add_source(replace(source, pattern=self.pattern))


class Operation(LogicalNode):
    """One processor and its stores: nearly every operator.

    ``operator`` and ``stores`` are called when the node is written, because later calls of the user may still change
    them: a table is materialised because something is joined with it. ``stores`` are those it brings along: the
    operator may use more.
    """

    def __init__(
        self,
        name: str,
        operator: Callable[[], Operator],
        stores: Callable[[], tuple[AnyStoreBuilder, ...]] = tuple,
    ) -> None:
        super().__init__(name)
        self.operator = operator
        self.stores = stores

    @override
    def kept_stores(self) -> tuple[AnyStoreBuilder, ...]:
        return self.stores()

    @override
    def write(self, writer: TopologyWriter) -> None:
        for store in self.stores():
            writer.add_store(store)
        writer.add_processor(ProcessorNode(self.name, self.parent_names, self.operator()))


class TableSourceNode(Operation):
    """``table``: a source and the processor that keeps its content."""

    reuse_source_topic = False

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        operator: Callable[[], Operator],
        stores: Callable[[], tuple[AnyStoreBuilder, ...]],
    ) -> None:
        super().__init__(name, operator, stores)
        self.source_name = source_name
        self.topic = topic
        self.consumed = consumed

    @override
    def write(self, writer: TopologyWriter) -> None:
        # The store is restored from the topic itself if the optimiser has decided so.
        writer.add_source(_source(self.source_name, (self.topic,), self.consumed, f"table({self.topic!r})"))
        for store in self.stores():
            writer.add_store(store, source_topic=self.topic if self.reuse_source_topic else None)
        writer.add_processor(ProcessorNode(self.name, (self.source_name,), self.operator()))


class Sink(LogicalNode):
    """``to``: one sink."""

    def __init__(self, name: str, topic: str | TopicNameExtractor, produced: Produced[Any, Any]) -> None:
        super().__init__(name)
        self.topic = topic
        self.produced = produced

    @override
    def write(self, writer: TopologyWriter) -> None:
        how = self.produced
        written_by = WrittenBy(f"to({self.topic!r})" if isinstance(self.topic, str) else "to(f)", "Produced")
        serdes = how.key_serde, how.value_serde
        writer.add_sink(
            SinkNode(self.name, self.parent_names, self.topic, *serdes, how.partitioner, written_by=written_by)
        )


class Repartition(LogicalNode):
    """A topic between two sub-topologies, with the filter and the sink that write it and the source that reads it.

    ``optimizable`` marks one that Kafka Streams put in by itself, and may merge with others.
    """

    reads_a_topic = True

    def __init__(
        self,
        source_name: str,
        filter_name: str,
        sink_name: str,
        topic: RepartitionTopic,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitioner: StreamPartitioner | None,
        *,
        optimizable: bool,
    ) -> None:
        super().__init__(source_name)
        self.filter_name = filter_name
        self.sink_name = sink_name
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner
        self.optimizable = optimizable
        self.keeps_null_keys = True
        self.written_by: WrittenBy | None = None
        """The first operator that needs it."""

    @override
    def write(self, writer: TopologyWriter) -> None:
        topic, key_serde, value_serde = self.topic.name, self.key_serde, self.value_serde
        writer.add_repartition_topic(self.topic)
        writer.add_processor(ProcessorNode(self.filter_name, self.parent_names, DropNullKeys(self.keeps_null_keys)))
        parents, written_by = (self.filter_name,), self.written_by
        writer.add_sink(
            SinkNode(self.sink_name, parents, topic, key_serde, value_serde, self.partitioner, True, written_by)
        )
        writer.add_source(SourceNode(self.name, (topic,), key_serde, value_serde, internal=True, written_by=written_by))


class StateStoreNode(LogicalNode):
    """``add_state_store``: one store."""

    def __init__(self, builder: AnyStoreBuilder) -> None:
        super().__init__(builder.name)
        self.builder = builder

    @override
    def write(self, writer: TopologyWriter) -> None:
        # Until some processor uses it, the store is part of no sub-topology.
        writer.add_store(self.builder)


class LogicalGraph:
    """All nodes of one builder, and what the optimiser must know about their order."""

    def __init__(self) -> None:
        self.names = NameFactory()
        self.root = LogicalNode("root")
        self.copartitioned: list[frozenset[str]] = []
        # For each key-changing node: the automatic repartitions below it that no other change of key or value separates
        # from it.
        self.repartitions_of: dict[LogicalNode, dict[Repartition, None]] = {}
        self.merges: dict[LogicalNode, None] = {}
        self._next_priority = 0

    def add(self, node: LogicalNode, *parents: LogicalNode) -> None:
        """Add ``node`` below ``parents``; adding it again moves it to the end of the order."""
        for parent in parents:
            parent.add_child(node)
        node.priority = self._next_priority
        self._next_priority += 1
        if node.key_changing:
            self.repartitions_of[node] = {}
        elif isinstance(node, Repartition) and node.optimizable:
            if (changer := _key_changer_of(node)) is not None:
                self.repartitions_of[changer][node] = None
        elif node.merging:
            self.merges[node] = None

    def copartition(self, *sources: frozenset[str]) -> frozenset[str]:
        """Note that these sources must have equally many partitions; returns all of them."""
        united = frozenset().union(*sources)
        self.copartitioned.append(united)
        return united

    def nodes(self) -> Iterator[LogicalNode]:
        """Yields every node that can be reached, once, the root first."""
        seen: dict[LogicalNode, None] = {self.root: None}
        todo = [self.root]
        while todo:
            node = todo.pop()
            yield node
            fresh = [child for child in node.children if child not in seen]
            seen.update(dict.fromkeys(fresh))
            todo += reversed(fresh)

    def copy(self) -> LogicalGraph:
        """Returns a copy with its own nodes, so that the optimiser does not change the user's builder."""
        twins = {node: copy.copy(node) for node in self.nodes()}
        for twin in twins.values():
            twin.parents = {twins[parent]: None for parent in twin.parents}
            twin.children = {twins[child]: None for child in twin.children}
        graph = LogicalGraph()
        graph.names = self.names.copy()
        graph.root = twins[self.root]
        graph.copartitioned = list(self.copartitioned)
        graph.merges = {twins[node]: None for node in self.merges}
        graph.repartitions_of = {
            twins[changer]: {twin: None for node in followers if isinstance(twin := twins[node], Repartition)}
            for changer, followers in self.repartitions_of.items()
        }
        return graph

    def write(self, writer: TopologyWriter) -> None:
        """Write every node: of those whose parents are written, always the one with the smallest priority first."""
        ready = [(-1, 0, self.root)]
        written: set[LogicalNode] = set()
        while ready:
            node = heapq.heappop(ready)[2]
            node.write(writer)
            written.add(node)
            for child in node.children:
                if written.issuperset(child.parents):
                    heapq.heappush(ready, (child.priority, len(written), child))


def first_ancestor(node: LogicalNode, test: Callable[[LogicalNode], bool]) -> LogicalNode | None:
    """Returns ``node``, or the first ancestor found depth first, for which ``test`` holds; None if there is none."""
    seen = set()
    todo = [node]
    while todo:
        if (current := todo.pop()) in seen:
            continue
        if test(current):
            return current
        seen.add(current)
        todo += reversed(current.parents)
    return None


def are_all_versioned(nodes: Iterable[LogicalNode]) -> bool:
    """Returns True if all that ``nodes`` forward comes from versioned tables, with no topic or other table between."""
    seen: set[LogicalNode] = set()
    todo = list(nodes)
    while todo:
        if (node := todo.pop()) in seen:
            continue
        seen.add(node)
        if node.of_versions is None and node.parents:
            todo += node.parents
        elif not node.of_versions:
            return False
    return True


def _key_changer_of(node: Repartition) -> LogicalNode | None:
    nearest = first_ancestor(node, lambda each: each.key_changing or each.value_changing)
    changer = first_ancestor(node, lambda each: each.key_changing)
    return changer if nearest is changer else None


def _source(name: str, topics: Iterable[str], how: Consumed[Any, Any], call: str) -> SourceNode:
    return SourceNode(
        name,
        tuple(topics),
        how.key_serde,
        how.value_serde,
        how.timestamp_extractor,
        how.offset_reset,
        written_by=WrittenBy(call, "Consumed"),
    )


def require_same_graph(graph: LogicalGraph, other: LogicalGraph, what: str) -> None:
    """Raises TopologyError when two streams of different builders meet."""
    if graph is not other:
        raise TopologyError(f"{what}: both sides must come from the same StreamsBuilder")


def new_repartition(
    graph: LogicalGraph,
    prefix: str,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
    *,
    partitioner: StreamPartitioner | None = None,
    partitions: int | None = None,
    optimizable: bool = True,
) -> Repartition:
    """Returns a repartition topic named after ``prefix``, not yet in the graph.

    Its nodes are numbered if ``prefix`` is a generated name, else named after the topic; the numbers are used up in
    either case.
    """
    topic = prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
    checked_name(topic, "name of a repartition topic")
    numbered = [graph.names.processor(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE")]
    sink, drop, source = (
        numbered if looks_generated(prefix) else [f"{topic}-{end}" for end in ("sink", "filter", "source")]
    )
    return Repartition(
        source,
        drop,
        sink,
        RepartitionTopic(topic, partitions),
        key_serde,
        value_serde,
        partitioner,
        optimizable=optimizable,
    )
