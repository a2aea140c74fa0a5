"""The task program of a sub-topology: what its tasks have in common, worked out once by each host.

The topology is what the user wrote: it lacks the names that topics have in Kafka, and what the configuration fills in.
Nothing below this file asks the configuration for a serde, an extractor or the name of a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from penstock.common.changes import changed
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, TopologyError
from penstock.common.extractors import FailOnInvalidTimestamp, TimestampExtractor
from penstock.common.ids import TopicPartition
from penstock.common.offset_resets import OffsetReset
from penstock.common.serdes import Serde, SerdePart, bound
from penstock.common.windowed_serdes import WindowedSerde
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.undecoded import Undecoded, find_undecoded
from penstock.topology.arity import EXTRACTOR_PARAMETERS, checked_function
from penstock.topology.physical.meeting_topics import meeting_topics, topics_by_chosen_partitioners
from penstock.topology.physical.pattern_sources import has_patterns, with_topics_read
from penstock.topology.physical.topology import (
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    Subtopology,
    Topology,
    changelog_topic,
    internal_topic,
    serde_topic,
)


@dataclass(frozen=True)
class SourceTopic:
    """One topic that the tasks read, under its name in Kafka, for source node ``node``.

    ``offset_reset``: where reading begins without a committed offset.
    """

    topic: str
    node: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    extractor: TimestampExtractor
    offset_reset: OffsetReset


@dataclass(frozen=True)
class Changelog:
    """The topic that restores a store. ``is_source_topic``: an input of the tasks (``reuse.ktable.source.topics``).

    If so, the store holds what the group has committed of the topic, and writes nothing to it.
    """

    topic: str
    is_source_topic: bool


@dataclass(frozen=True)
class TaskProgram:
    """All that the tasks of a sub-topology share; a task is made of it by adding its number, stores and collector.

    ``nodes`` have real topic names, serdes and extractors, parents before their children. ``sources`` are by topic,
    ``stores`` and ``changelogs`` by store, in the order in which a commit flushes them; a store without logging has no
    changelog. Serdes are bound to their topics: a source node has those that all of its topics share, None where these
    differ, and a sink whose topics a function chooses has unbound ones. ``undecoded``: the keys and values that
    stay bytes.
    """

    config: StreamsConfig
    nodes: tuple[Node, ...]
    children: Mapping[str, Sequence[Node]]
    sources: Mapping[str, SourceTopic]
    stores: Mapping[str, AnyStoreBuilder]
    changelogs: Mapping[str, Changelog]
    undecoded: Undecoded
    written: tuple[Serde[Any], ...] = ()
    """The bound serdes by which the tasks write: those of sinks, stores and operators."""

    def prepare_serdes(self) -> None:
        """Have the serdes get ready to write. Raises what they raise, RetriableError if one must be called again."""
        for serde in self.written:
            serde.prepare()

    @cached_property
    def partitioned_topics(self) -> frozenset[str]:
        """Topics for whose records a sink chooses the partition, so that it must know their number of partitions."""
        sinks = [node for node in self.nodes if isinstance(node, SinkNode)]
        return frozenset(
            node.topic
            for node in sinks
            if isinstance(node.topic, str)
            and (node.partitioner is not None or isinstance(node.key_serde, WindowedSerde))
        )

    @cached_property
    def meetings(self) -> tuple[frozenset[str], ...]:
        """The topics whose records meet by their keys in each store. Topics with windowed keys are left out: a sink
        places their records by the key without its window."""
        plain = {name for name, source in self.sources.items() if not isinstance(source.key_serde, WindowedSerde)}
        return tuple(left for topics in meeting_topics(self.nodes) if (left := topics & plain))

    @property
    def reads_source(self) -> bool:
        """True if an operator asks for the place of a record, also for one that a cache held back."""
        return any(isinstance(node, ProcessorNode) and node.operator.keeps_source for node in self.nodes)

    @cached_property
    def sinks(self) -> dict[str, str]:
        """The sink of each topic that the program names."""
        sinks = [node for node in self.nodes if isinstance(node, SinkNode)]
        return {node.topic: node.name for node in sinks if isinstance(node.topic, str)}

    @staticmethod
    def of(subtopologies: Sequence[Subtopology], config: StreamsConfig) -> TaskProgram:
        """Returns the task program of one sub-topology, or of several that run as one.

        Raises ConfigError if a serde is missing in both program and configuration or cannot be bound, and for a
        function of the configuration that cannot be called as it will be.
        """
        _check_functions(config)
        nodes: list[Node] = []
        sources: dict[str, SourceTopic] = {}
        written: list[Serde[Any]] = []
        for node in (node for sub in subtopologies for node in sub.nodes):
            if isinstance(node, SourceNode):
                topics = _source_topics(node, config)
                sources.update(topics)
                node = _resolve_source(_with_serdes(node, config), topics)
            elif isinstance(node, SinkNode):
                node = _resolve_sink(node, config, written)
            else:
                node = replace(node, operator=node.operator.with_serdes(partial(_fill, config, written), node.name))
            nodes.append(node)
        stores = {
            store.name: _resolve_store(store, sub, config, written) for sub in subtopologies for store in sub.stores
        }
        changelogs = {
            name: Changelog(topic, store.source_topic is not None)
            for name, store in stores.items()
            if (topic := changelog_topic(config.application_id, store)) is not None
        }
        children = _children(nodes)
        undecoded = find_undecoded(nodes, children, stores)
        return TaskProgram(config, tuple(nodes), children, sources, stores, changelogs, undecoded, tuple(written))


class TaskPrograms:
    """The task programs of a topology, for a host of many tasks: each is made once, when it is asked for first."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._topology = topology
        self._subtopologies = {sub.id: sub for sub in topology.subtopologies}
        self.config = config
        self._made: dict[tuple[int, frozenset[str]], TaskProgram] = {}

    @cached_property
    def topics_by_chosen_partitioners(self) -> frozenset[str]:
        """The topics that the topology itself writes by another partitioner than Kafka's."""
        return topics_by_chosen_partitioners(self._topology, self.config.application_id)

    def of(self, subtopology: int, reads: Iterable[TopicPartition] = ()) -> TaskProgram:
        """Returns the task program of sub-topology number ``subtopology``; if sources have patterns, that of the tasks
        that read ``reads``. Raises as :meth:`TaskProgram.of`."""
        sub = self._subtopologies[subtopology]
        topics = frozenset(partition.topic for partition in reads) if has_patterns(sub) else frozenset[str]()
        made = self._made.get((subtopology, topics))
        if made is None:
            made = TaskProgram.of([with_topics_read(sub, topics)], self.config)
            self._made[subtopology, topics] = made
        return made


def _check_functions(config: StreamsConfig) -> None:
    asked = ("context", "record", "error")
    production = config.production_exception_handler
    handlers = {
        "deserialization.exception.handler": (config.deserialization_exception_handler.handle_error, asked),
        "processing.exception.handler": (config.processing_exception_handler.handle_error, asked),
        "production.exception.handler": (production.handle_error, asked),
        "production.exception.handler: handle_serialization_error": (
            production.handle_serialization_error,
            (*asked, "origin"),
        ),
        "default.timestamp.extractor": (config.default_timestamp_extractor, EXTRACTOR_PARAMETERS),
    }
    try:
        for key, (function, parameters) in handlers.items():
            checked_function(function, key, *parameters)
    except TopologyError as error:
        raise ConfigError(str(error)) from None


def _children(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    children: dict[str, list[Node]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in () if isinstance(node, SourceNode) else node.parents:
            children[parent].append(node)
    return children


def source_topic(program: TaskProgram, topic: str) -> SourceTopic | None:
    """Returns the source topic that ``program`` makes of ``topic``, which it does not name, by the pattern of a source;
    None if none matches."""
    for node in program.nodes:
        if isinstance(node, SourceNode) and node.pattern is not None and node.pattern.fullmatch(topic):
            return _source_topics(replace(node, topics=(topic,)), program.config)[topic]
    return None


def _source_topics(node: SourceNode, config: StreamsConfig) -> dict[str, SourceTopic]:
    key, value = _node_serdes(node, config)
    extractor = node.timestamp_extractor or config.default_timestamp_extractor
    reset: OffsetReset = node.offset_reset or "earliest"
    topics = node.topics
    if node.internal:
        topics = tuple(internal_topic(config.application_id, topic) for topic in topics)
        extractor, reset = FailOnInvalidTimestamp(), "earliest"
    keys = {topic: bound(key, topic, "key", config.serde_settings) for topic in topics}
    values = {topic: bound(value, topic, "value", config.serde_settings) for topic in topics}
    return {
        topic: SourceTopic(topic, node.name, keys[topic], _of_values(node, values[topic]), extractor, reset)
        for topic in topics
    }


def _resolve_source(node: SourceNode, topics: Mapping[str, SourceTopic]) -> SourceNode:
    if not topics:  # no topic of its pattern is known yet
        return node
    first = next(iter(topics.values()))
    return replace(
        node,
        topics=tuple(topics),
        key_serde=_common([each.key_serde for each in topics.values()]),
        value_serde=_common([each.value_serde for each in topics.values()]),
        timestamp_extractor=first.extractor,
        offset_reset=first.offset_reset,
    )


def _with_serdes(node: SourceNode, config: StreamsConfig) -> SourceNode:
    key, value = _node_serdes(node, config)
    return replace(node, key_serde=key, value_serde=value)


def _common(serdes: Sequence[Serde[Any]]) -> Serde[Any] | None:
    return serdes[0] if all(serde == serdes[0] for serde in serdes) else None


def _resolve_sink(node: SinkNode, config: StreamsConfig, written: list[Serde[Any]]) -> SinkNode:
    key, value = _node_serdes(node, config)
    settings = config.serde_settings
    if not isinstance(node.topic, str):  # bound when a topic is chosen
        return replace(node, key_serde=key.configure(settings), value_serde=value.configure(settings))
    topic = internal_topic(config.application_id, node.topic) if node.internal else node.topic
    keys, values = bound(key, topic, "key", settings), bound(value, topic, "value", settings)
    written += (keys, values)
    return replace(node, topic=topic, key_serde=keys, value_serde=_of_values(node, values))


def _of_values(node: SourceNode | SinkNode, serde: Serde[Any]) -> Serde[Any]:
    """Returns the serde of the values in a topic; ``serde`` is that of the program's values, bound to the topic."""
    return changed(serde) if node.changes else serde


def _node_serdes(node: SourceNode | SinkNode, config: StreamsConfig) -> tuple[Serde[Any], Serde[Any]]:
    what = _node_words(node, config)
    return node.key_serde or _default(config, "key", *what), node.value_serde or _default(config, "value", *what)


def _node_words(node: SourceNode | SinkNode, config: StreamsConfig) -> tuple[str, str]:
    """Returns the words for the user's call that made ``node``, and for the option that takes its serdes."""
    if node.written_by is None:
        return f"{'source' if isinstance(node, SourceNode) else 'sink'} {node.name}", "an option"
    call, serdes = node.written_by.call, node.written_by.serdes_in_words
    if node.internal:
        topic = internal_topic(
            config.application_id, str(node.topics[0] if isinstance(node, SourceNode) else node.topic)
        )
        return f"{call}, whose input goes by way of topic {topic},", serdes
    return f"{call} ({node.name})", serdes


def _fill(
    config: StreamsConfig,
    written: list[Serde[Any]],
    serde: Serde[Any] | None,
    part: SerdePart,
    topic: str,
    whose: str,
    option: str,
) -> Serde[Any]:
    topic, given = internal_topic(config.application_id, topic), serde or _default(config, part, whose, option)
    filled = bound(given, topic, part, config.serde_settings)
    written.append(filled)
    return filled


def _resolve_store(
    store: AnyStoreBuilder, subtopology: Subtopology, config: StreamsConfig, written: list[Serde[Any]]
) -> AnyStoreBuilder:
    what, topic = _store_words(store, subtopology), serde_topic(config.application_id, store)

    def known(serde: Serde[Any] | None, part: SerdePart) -> Serde[Any]:
        made = bound(serde or _default(config, part, *what), topic, part, config.serde_settings)
        written.append(made)
        return made

    return store.in_format(config.dsl_store_format).with_known_serdes(known)


def _store_words(store: AnyStoreBuilder, subtopology: Subtopology) -> tuple[str, str]:
    users = [node.name for node in subtopology.nodes if isinstance(node, ProcessorNode) and store.name in node.stores]
    user = f" of {users[0]}" if users else ""
    return f"store {store.name}{user}", store.serdes_by.format(name=store.name)


def _default(config: StreamsConfig, part: SerdePart, what: str, option: str) -> Serde[Any]:
    serde = config.default_key_serde if part == "key" else config.default_value_serde
    if serde is None:
        raise ConfigError(
            f"{what} has no {part} serde, and none is known from the operators above: pass {option}, or set "
            f"default.{part}.serde"
        )
    return serde
