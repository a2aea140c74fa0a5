"""Collects physical nodes, stores and internal topics, checks them, and makes the :class:`Topology` of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operators.operator import TableOperator
from penstock.topology.physical.operators.process import Process
from penstock.topology.physical.operators.table_join import TableTableJoin
from penstock.topology.physical.operators.wrapped import Wrapped, wrapped
from penstock.topology.physical.pattern_sources import check_pattern
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
from penstock.topology.processor_api.processor_wrapper import ProcessorWrapper


class TopologyWriter:
    """The topology while it is written, node by node, parents first. ``wrapper`` sees every processor."""

    def __init__(self, wrapper: ProcessorWrapper | None = None) -> None:
        self._wrapper = wrapper
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, AnyStoreBuilder] = {}
        self._defined: dict[str, AnyStoreBuilder] = {}
        self._store_users: dict[str, str] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._topic_readers: dict[str, str] = {}
        self._global_stores: dict[str, str] = {}
        self._of_global_stores: set[str] = set()
        self._groups = NodeGroups()

    @property
    def is_empty(self) -> bool:
        """True if nothing is read yet."""
        return not any(isinstance(node, SourceNode) for node in self._nodes.values())

    def add_source(self, node: SourceNode) -> None:
        """Add a source. Raises TopologyError if one of its topics has a reader already."""
        self._check_free(node.name)
        check_pattern(node, [other for other in self._nodes.values() if isinstance(other, SourceNode)])
        for topic in node.topics:
            if reader := self._topic_readers.get(topic):
                raise TopologyError(
                    f"topic {topic!r} is already read by source {reader!r}: read it once and use the result twice"
                )
        self._topic_readers.update(dict.fromkeys(node.topics, node.name))
        self._add(node, ())

    def add_processor(self, node: ProcessorNode) -> None:
        """Add a processor, whose stores are there already; all users of a store are in one sub-topology."""
        if self._wrapper is not None and not node.operator.keeps_source_store:
            operator, stores = wrapped(node.operator, node.name, self._wrapper)
            node = replace(node, operator=operator)
            for store in stores:
                self.add_connected_store(store)
        self._place(node)

    def _place(self, node: ProcessorNode) -> None:
        self._add(node, node.parents)
        self._use(node.name, node.stores)

    def connect(self, processor: str, stores: tuple[str, ...]) -> None:
        """Let the user's processor of that name, which is there already, use ``stores``, too."""
        node = self._nodes.get(processor)
        if node is None:
            raise TopologyError(
                f"processor {processor!r}, which is to use {_stores(stores)}, does not exist: add it first"
            )
        if not isinstance(node, ProcessorNode) or not isinstance(node.operator, Process):
            raise TopologyError(
                f"{processor!r} cannot use {_stores(stores)}: only a processor of your own can be connected with "
                "stores (add_processor, KStream.process, KStream.process_values)"
            )
        self._use(processor, stores)
        self._nodes[processor] = replace(node, operator=node.operator.with_stores(stores))

    def _use(self, processor: str, stores: tuple[str, ...]) -> None:
        for store in stores:
            if store in self._global_stores:
                raise TopologyError(
                    f"{processor} names global store {store!r}: every processor may read every global store, so leave "
                    "it out"
                )
            if store not in self._stores:
                known = ", ".join(sorted(self._stores)) or "none"
                raise TopologyError(
                    f"{processor} uses store {store!r}, which does not exist: call add_state_store() first, or name a "
                    f"table's store (stores so far: {known})"
                )
        for store in stores:
            self._groups.unite(self._store_users.setdefault(store, processor), [processor])

    def add_sink(self, node: SinkNode) -> None:
        """Add a sink, whose parents are there already. Raises TopologyError if its name is taken."""
        self._add(node, node.parents)

    def add_store(self, builder: AnyStoreBuilder, source_topic: str | None = None) -> None:
        """Add a store; ``source_topic`` restores it in place of a changelog. The same builder may come twice."""
        name = builder.name
        if self._defined.setdefault(name, builder) is not builder:
            raise TopologyError(f"two different stores are named {name!r}: give each a name of its own")
        if source_topic is not None and not builder.changes_by_itself:
            self._stores[name] = replace(builder, source_topic=source_topic, logging=False, topic_config={})
        else:
            self._stores.setdefault(name, builder)

    def add_connected_store(self, builder: AnyStoreBuilder) -> None:
        """Add a store that a supplier brings along; others may bring an equal one, and mean the same."""
        self.add_store(known if (known := self._defined.get(builder.name)) == builder else builder)

    def forwards_updates(self, name: str) -> bool:
        """Returns True if node ``name`` forwards a table's updates, which no processor of the user's takes."""
        node = self._nodes.get(name)
        operator = node.operator if isinstance(node, ProcessorNode) else None
        if isinstance(operator, Wrapped):
            operator = operator.inner
        return isinstance(operator, TableOperator | TableTableJoin)

    def add_global_store(self, source: SourceNode, node: ProcessorNode, builder: AnyStoreBuilder) -> None:
        """Add a store that each host has in full. ``node`` keeps it from the topic of ``source``, which restores it."""
        (topic,) = source.topics
        self.add_source(source)
        self.add_store(builder, source_topic=topic)
        self._place(node)  # no wrapper sees it, as in Kafka Streams
        self._global_stores[builder.name] = source.name
        self._of_global_stores |= {source.name, node.name}

    def add_repartition_topic(self, topic: RepartitionTopic) -> None:
        """Add a topic between two sub-topologies."""
        if topic.name in self._repartition_topics:
            raise TopologyError(
                f"two repartition topics are named {topic.name!r}: give Grouped, Joined or Repartitioned another name"
            )
        self._repartition_topics[topic.name] = topic

    def topology(
        self, copartitioned: Sequence[Iterable[str]], is_generated: Callable[[str], bool] = lambda name: False
    ) -> Topology:
        """Returns the topology; ``copartitioned`` are sets of sources that must have equally many partitions,
        ``is_generated`` returns True for the name of a store or a topic that the user has not given."""
        groups = self._copartition_groups(copartitioned)
        every, of_stores = self._subtopologies(), set(self._global_stores.values())
        global_ones = tuple(sub for sub in every if any(source.name in of_stores for source in sub.sources))
        with_tasks = tuple(sub for sub in every if sub not in global_ones)
        generated = frozenset(filter(is_generated, (*self._stores, *self._repartition_topics)))
        by_pattern = self._copartitioned_by_pattern(copartitioned)
        order = tuple(self._nodes)
        return Topology(with_tasks, self._repartition_topics, groups, order, global_ones, by_pattern, generated)

    def _add(self, node: Node, parents: tuple[str, ...]) -> None:
        self._check_free(node.name)
        for parent in parents:
            self._check_parent(node.name, parent)
        self._nodes[node.name] = node
        self._groups.add(node.name)
        self._groups.unite(node.name, parents)

    def _check_free(self, name: str) -> None:
        if name in self._nodes:
            raise TopologyError(f"two operators are named {name!r}: names must be unique within a topology")

    def _check_parent(self, name: str, parent: str) -> None:
        if parent == name:
            raise TopologyError(f"{name!r} cannot be a parent of itself: no record may go in a circle")
        known = self._nodes.get(parent)
        if known is None:
            raise TopologyError(f"parent {parent!r} of {name!r} does not exist: add a node after its parents")
        if isinstance(known, SinkNode):
            raise TopologyError(f"sink {parent!r} cannot be the parent of {name!r}: a sink forwards nothing")
        if parent in self._of_global_stores:
            raise TopologyError(f"{parent!r} cannot be the parent of {name!r}: nothing is downstream of a global store")

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

    def _copartitioned_by_pattern(self, copartitioned: Sequence[Iterable[str]]) -> tuple[frozenset[str], ...]:
        patterns = {node.name for node in self._nodes.values() if isinstance(node, SourceNode) and node.pattern}
        groups = (frozenset(name for name in sources if name in self._nodes) for sources in copartitioned)
        return tuple(dict.fromkeys(group for group in groups if group & patterns and len(group) > 1))

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


def _stores(names: tuple[str, ...]) -> str:
    return f"store {', '.join(map(repr, names))}"
