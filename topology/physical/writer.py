"""Collects physical nodes, stores and internal topics, checks them, and makes the :class:`Topology` of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.subtopologies import NodeGroups
from penstock.topology.physical.topology import (
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    Subtopology,
    Topology,
)


class TopologyWriter:
    """The topology while it is written, node by node, parents first."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, AnyStoreBuilder] = {}
        self._defined: dict[str, AnyStoreBuilder] = {}
        self._store_users: dict[str, str] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._topic_readers: dict[str, str] = {}
        self._global_stores: dict[str, str] = {}
        self._groups = NodeGroups()

    def add_source(self, node: SourceNode) -> None:
        """A source. Raises TopologyError when one of its topics has a reader already."""
        for topic in node.topics:
            if reader := self._topic_readers.get(topic):
                raise TopologyError(
                    f"topic {topic!r} is already read by source {reader!r}: read it once and use the result twice"
                )
            self._topic_readers[topic] = node.name
        self._add(node, ())

    def add_processor(self, node: ProcessorNode) -> None:
        """A processor, whose stores are there already; all users of a store are in one sub-topology."""
        self._add(node, node.parents)
        for store in node.stores:
            if store in self._global_stores:
                raise TopologyError(
                    f"{node.name} names global store {store!r}: every processor may read every global store, so leave "
                    "it out"
                )
            if store not in self._stores:
                known = ", ".join(sorted(self._stores)) or "none"
                raise TopologyError(
                    f"{node.name} uses store {store!r}, which does not exist: call add_state_store() first, or name a "
                    f"table's store (stores so far: {known})"
                )
            self._groups.unite(self._store_users.setdefault(store, node.name), [node.name])

    def add_sink(self, node: SinkNode) -> None:
        """A sink, whose parents are there already. Raises TopologyError when its name is taken."""
        self._add(node, node.parents)

    def add_store(self, builder: AnyStoreBuilder, source_topic: str | None = None) -> None:
        """A store; ``source_topic`` restores it in place of a changelog. The same builder may come twice."""
        name = builder.name
        if self._defined.setdefault(name, builder) is not builder:
            raise TopologyError(f"two different stores are named {name!r}: give each a name of its own")
        if source_topic is not None and not builder.changes_by_itself:
            self._stores[name] = replace(builder, source_topic=source_topic, logging=False, topic_config={})
        else:
            self._stores.setdefault(name, builder)

    def add_global_store(self, source: SourceNode, node: ProcessorNode, builder: AnyStoreBuilder) -> None:
        """A store of which every host has all, kept by ``node`` from the one topic of ``source``, which restores it."""
        (topic,) = source.topics
        self.add_source(source)
        self.add_store(builder, source_topic=topic)
        self.add_processor(node)
        self._global_stores[builder.name] = source.name

    def add_repartition_topic(self, topic: RepartitionTopic) -> None:
        """A topic between two sub-topologies."""
        if topic.name in self._repartition_topics:
            raise TopologyError(
                f"two repartition topics are named {topic.name!r}: give Grouped, Joined or Repartitioned another name"
            )
        self._repartition_topics[topic.name] = topic

    def topology(self, copartitioned: Sequence[Iterable[str]]) -> Topology:
        """The whole; ``copartitioned`` are sets of sources that must have equally many partitions."""
        if not self._topic_readers:
            raise TopologyError(
                "the topology is empty: it must read at least one topic (StreamsBuilder.stream or table)"
            )
        groups = self._copartition_groups(copartitioned)
        every, of_stores = self._subtopologies(), set(self._global_stores.values())
        global_ones = tuple(sub for sub in every if any(source.name in of_stores for source in sub.sources))
        with_tasks = tuple(sub for sub in every if sub not in global_ones)
        return Topology(with_tasks, self._repartition_topics, groups, tuple(self._nodes), global_ones)

    def _add(self, node: Node, parents: tuple[str, ...]) -> None:
        if node.name in self._nodes:
            raise TopologyError(f"two operators are named {node.name!r}: names must be unique within a topology")
        self._nodes[node.name] = node
        self._groups.add(node.name)
        self._groups.unite(node.name, parents)

    def _subtopologies(self) -> tuple[Subtopology, ...]:
        return tuple(
            Subtopology(id, nodes := tuple(self._nodes[name] for name in names), self._stores_of(nodes))
            for id, names in enumerate(self._groups.numbered())
        )

    def _stores_of(self, nodes: tuple[Node, ...]) -> tuple[AnyStoreBuilder, ...]:
        used = (store for node in nodes if isinstance(node, ProcessorNode) for store in node.stores)
        return tuple(self._stores[store] for store in dict.fromkeys(used))

    def _copartition_groups(self, copartitioned: Sequence[Iterable[str]]) -> tuple[frozenset[str], ...]:
        groups: dict[frozenset[str], None] = {}
        for sources in copartitioned:
            nodes = [self._nodes[name] for name in sources if name in self._nodes]
            topics = frozenset(topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics)
            if len(topics) > 1:
                self._check_fixed_counts(topics)
                groups[topics] = None
        return tuple(groups)

    def _check_fixed_counts(self, topics: frozenset[str]) -> None:
        counts = {
            topic: count
            for topic in sorted(topics)
            if (known := self._repartition_topics.get(topic)) and (count := known.partitions) is not None
        }
        # With an external topic among them, the counts are compared when the topics are created.
        if len(counts) == len(topics) and len(set(counts.values())) > 1:
            listed = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
            raise TopologyError(
                f"topics that are joined must have equally many partitions: {listed}; fix with_number_of_partitions()"
            )
