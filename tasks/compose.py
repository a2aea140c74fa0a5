"""From nodes to closures: composed once, when a task starts, from the sinks backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.serdes import Serde
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.forms import Forms, key_passes
from penstock.tasks.operators import aggregate, join, process, sink, stateless, table
from penstock.tasks.program import SourceTopic, TaskProgram
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.record_queue import Part, Source
from penstock.tasks.wiring import Edge, Store, Wiring, fan_out
from penstock.topology.physical import operators as spec
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode
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


def compose(
    program: TaskProgram,
    stores: Mapping[str, Store],
    context: TaskContext,
    collector: RecordCollector,
    queues: Mapping[PunctuationType, PunctuationQueue],
) -> Composed:
    """Make the closures of the nodes of ``program`` for one task, whose ``stores`` they are."""
    nodes, children, forms = program.nodes, program.children, program.forms
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
        topic: _source(source, [edges[child.name] for child in children[source.node]], forms)
        for topic, source in program.sources.items()
    }
    prefetched = {
        topic: _reached_stores(node, children, stores, forms)
        for node in nodes
        if isinstance(node, SourceNode)
        for topic in node.topics
    }
    return Composed(sources, tuple(reversed(processors)), prefetched)


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


def _source(source: SourceTopic, edges: list[Edge], forms: Forms) -> Source:
    return Source(
        topic=source.topic,
        key=_part(source.key_serde, source.node in forms.raw_keys),
        value=_part(source.value_serde, source.node in forms.raw_values),
        extractor=source.extractor,
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
