"""From nodes to closures: composed once, when a task starts, from the sinks backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, TopologyError
from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.forms import Forms, find_forms, key_passes
from penstock.tasks.operators import aggregate, join, process, sink, stateless, table
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.record_queue import Part, Source
from penstock.tasks.wiring import Edge, Store, Wiring, fan_out
from penstock.topology.arity import EXTRACTOR_PARAMETERS, checked_function
from penstock.topology.physical import operators as spec
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode, Subtopology, internal_topic
from penstock.topology.processor import PunctuationType

_FACTORIES: dict[type[Any], Callable[[Any, Wiring], Edge]] = {
    spec.Filter: stateless.filter_,
    spec.DropNullKeys: stateless.drop_null_keys,
    spec.MapValues: stateless.map_values,
    spec.Map: stateless.map_,
    spec.SelectKey: stateless.select_key,
    spec.FlatMap: stateless.flat_map,
    spec.FlatMapValues: stateless.flat_map_values,
    spec.Peek: stateless.peek,
    spec.ForEach: stateless.peek,
    spec.PassThrough: stateless.pass_through,
    spec.Branch: stateless.branch,
    spec.StreamCount: aggregate.count,
    spec.StreamAggregate: aggregate.aggregate,
    spec.StreamReduce: aggregate.reduce,
    spec.TableSource: table.table_source,
    spec.TableFilter: table.table_filter,
    spec.TableMapValues: table.table_map_values,
    spec.TableToStream: table.table_to_stream,
    spec.StreamTableJoin: join.stream_table_join,
}


@dataclass(frozen=True)
class Composed:
    """What a task runs: per topic how its records enter, the processors, and the stores whose keys a source knows."""

    sources: Mapping[str, Source]
    processors: tuple[process.HostedProcessor, ...]
    prefetched: Mapping[str, tuple[Store, ...]]


def resolve(subtopologies: Sequence[Subtopology], config: StreamsConfig) -> tuple[list[Node], list[AnyStoreBuilder]]:
    """Nodes and stores with real topic names, and with the configuration's serdes and extractors where they have none.

    Raises ConfigError where a serde is missing in both, and for a function of the configuration that cannot be called
    as it will be.
    """
    _check_functions(config)
    nodes = [_resolve_node(node, config) for sub in subtopologies for node in sub.nodes]
    builders = [
        replace(
            store,
            key_serde=store.key_serde or _default(config, "key", *_store_words(store, sub)),
            value_serde=store.value_serde or _default(config, "value", *_store_words(store, sub)),
        )
        for sub in subtopologies
        for store in sub.stores
    ]
    return nodes, builders


def _check_functions(config: StreamsConfig) -> None:
    handlers = {
        "deserialization.exception.handler": config.deserialization_exception_handler,
        "processing.exception.handler": config.processing_exception_handler,
    }
    try:
        for key, handler in handlers.items():
            checked_function(handler, key, "error")
        checked_function(config.default_timestamp_extractor, "default.timestamp.extractor", *EXTRACTOR_PARAMETERS)
    except TopologyError as error:
        raise ConfigError(str(error)) from None


def _resolve_node(node: Node, config: StreamsConfig) -> Node:
    if isinstance(node, ProcessorNode):
        return node
    what = _node_words(node, config)
    key = node.key_serde or _default(config, "key", *what)
    value = node.value_serde or _default(config, "value", *what)
    if isinstance(node, SinkNode):
        topic = node.topic
        if node.internal and isinstance(topic, str):
            topic = internal_topic(config.application_id, topic)
        return replace(node, key_serde=key, value_serde=value, topic=topic)
    topics = node.topics
    extractor = node.timestamp_extractor or config.default_timestamp_extractor
    if node.internal:
        topics = tuple(internal_topic(config.application_id, topic) for topic in topics)
        extractor = FailOnInvalidTimestamp()
    return replace(node, key_serde=key, value_serde=value, topics=topics, timestamp_extractor=extractor)


def _node_words(node: SourceNode | SinkNode, config: StreamsConfig) -> tuple[str, str]:
    """The user's call that ``node`` stands for, and the option that takes its serdes."""
    if node.written_by is None:
        return f"{'source' if isinstance(node, SourceNode) else 'sink'} {node.name}", "an option"
    call, option = node.written_by.call, node.written_by.option
    if node.internal:
        topic = internal_topic(
            config.application_id, str(node.topics[0] if isinstance(node, SourceNode) else node.topic)
        )
        return f"{call}, whose input goes by way of topic {topic},", f"{option}.with_(...)"
    return f"{call} ({node.name})", f"{option}.with_(...)"


def _store_words(store: AnyStoreBuilder, subtopology: Subtopology) -> tuple[str, str]:
    users = [node.name for node in subtopology.nodes if isinstance(node, ProcessorNode) and store.name in node.stores]
    user = f" of {users[0]}" if users else ""
    return f"store {store.name}{user}", f"Materialized.as_({store.name!r}).with_key_serde(...).with_value_serde(...)"


def _default(config: StreamsConfig, part: str, what: str, option: str) -> Serde[Any]:
    serde = config.default_key_serde if part == "key" else config.default_value_serde
    if serde is None:
        raise ConfigError(
            f"{what} has no {part} serde, and none is known from the operators above: pass {option}, or set "
            f"default.{part}.serde"
        )
    return serde


def compose(
    nodes: Sequence[Node],
    stores: Mapping[str, Store],
    context: TaskContext,
    collector: RecordCollector,
    queues: Mapping[PunctuationType, PunctuationQueue],
) -> Composed:
    """Make the closures of resolved ``nodes``, which stand in an order in which parents come first."""
    children = _children(nodes)
    forms = find_forms(nodes, children, {name: store.builder for name, store in stores.items()})
    edges: dict[str, Edge] = {}
    processors: list[process.HostedProcessor] = []
    for node in reversed(nodes):
        wiring = _wiring(node, edges, children, stores, context, collector, forms)
        if isinstance(node, SinkNode):
            edges[node.name] = sink.sink(node, node.topic if isinstance(node.topic, str) else None, wiring)
        elif isinstance(node, ProcessorNode) and isinstance(node.operator, spec.Process):
            hosted = process.HostedProcessor(node.operator, wiring, queues)
            processors.append(hosted)
            edges[node.name] = hosted.edge(context)
        elif isinstance(node, ProcessorNode):
            edges[node.name] = _FACTORIES[type(node.operator)](node.operator, wiring)
    sources = {
        topic: _source(node, topic, [edges[child.name] for child in children[node.name]], forms)
        for node in nodes
        if isinstance(node, SourceNode)
        for topic in node.topics
    }
    prefetched = {
        topic: _reached_stores(node, children, stores, forms)
        for node in nodes
        if isinstance(node, SourceNode)
        for topic in node.topics
    }
    return Composed(sources, tuple(reversed(processors)), prefetched)


def _children(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    children: dict[str, list[Node]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in () if isinstance(node, SourceNode) else node.parents:
            children[parent].append(node)
    return children


def _wiring(
    node: Node,
    edges: Mapping[str, Edge],
    children: Mapping[str, Sequence[Node]],
    stores: Mapping[str, Store],
    context: TaskContext,
    collector: RecordCollector,
    forms: Forms,
) -> Wiring:
    return Wiring(
        name=node.name,
        context=context,
        children={child.name: edges[child.name] for child in children[node.name]} if node.name in children else {},
        stores={name: stores[name] for name in node.stores} if isinstance(node, ProcessorNode) else {},
        collector=collector,
        undecoded_key=forms.raw_keys.get(node.name),
        raw_value=node.name in forms.raw_values,
    )


def _source(node: SourceNode, topic: str, edges: list[Edge], forms: Forms) -> Source:
    assert node.key_serde is not None
    assert node.value_serde is not None
    assert node.timestamp_extractor is not None
    return Source(
        topic=topic,
        key=_part(node.key_serde, node.name in forms.raw_keys),
        value=_part(node.value_serde, node.name in forms.raw_values),
        extractor=node.timestamp_extractor,
        head=fan_out(edges),
    )


def _part(serde: Serde[Any], raw: bool) -> Part:
    return Part(None, serde.check) if raw else Part(serde.deserialize)


def _reached_stores(
    source: SourceNode, children: Mapping[str, Sequence[Node]], stores: Mapping[str, Store], forms: Forms
) -> tuple[Store, ...]:
    """The stores that the records of ``source`` will look up under the key they have when they come in."""
    if source.name not in forms.raw_keys:
        return ()
    reached: dict[str, Store] = {}
    waiting: list[Node] = list(children[source.name])
    while waiting:
        node = waiting.pop()
        if isinstance(node, ProcessorNode) and key_passes(node):
            reached.update((name, stores[name]) for name in node.stores)
            waiting.extend(children[node.name])
    return tuple(reached.values())
