"""Composes the closures of a task from its nodes: once, when the task starts, from the sinks backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.common.graphs import reachable
from penstock.common.serdes import Serde
from penstock.tasks.calls.order import emits_in_order
from penstock.tasks.calls.task_calls import TaskCalls
from penstock.tasks.closures import make_closure
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import RecordCollector, SenderOf
from penstock.tasks.expiry import Expiry, expiring
from penstock.tasks.measuring.edge_slots import own_function
from penstock.tasks.measuring.operator_meter import MOST_DEEP, OperatorMeter
from penstock.tasks.operators.sink import sink
from penstock.tasks.program import SourceTopic, TaskProgram
from penstock.tasks.punctuation import PunctuationQueue
from penstock.tasks.record_queue import Part, Source
from penstock.tasks.undecoded import Undecoded
from penstock.tasks.wiring import Edge, Hosted, Store, Wiring, fan_out
from penstock.topology.physical.operators.operator import TableOperator
from penstock.topology.physical.operators.wrapped import Wrapped
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode
from penstock.topology.processor_api.processor import PunctuationType


@dataclass(frozen=True)
class Composed:
    """The parts of a task: per topic the entry of its records, the processors, and per topic the stores that its
    records will look up by their keys."""

    sources: Mapping[str, Source]
    processors: tuple[Hosted, ...]
    prefetched: Mapping[str, tuple[Store, ...]]
    source: Callable[[SourceTopic], Source]
    """Makes the entry for records of another topic of a source."""


def compose(
    program: TaskProgram,
    stores: Mapping[str, Store],
    context: TaskContext,
    collector: RecordCollector,
    queues: Mapping[PunctuationType, PunctuationQueue],
    global_stores: Mapping[str, Store],
    expiry: Expiry | None = None,
    sender_of: SenderOf | None = None,
    calls: TaskCalls | None = None,
    meter: OperatorMeter | None = None,
) -> Composed:
    """Make the closures of the nodes of ``program`` for one task: see :class:`Task`. The ``stores`` are the task's own.
    Tables whose rows expire are added to ``expiry``, operators that call out to ``calls``."""
    nodes, children, undecoded = program.nodes, program.children, program.undecoded
    edges: dict[str, Edge] = {}
    passes_to: dict[str, str] = {}
    processors: list[Hosted] = []
    cached_stores = frozenset(name for name, store in stores.items() if store.opened.context.caching)
    for node in reversed(nodes):
        if isinstance(node, SourceNode):
            continue
        wiring = Wiring(
            name=node.name,
            context=context,
            config=program.config,
            children={child.name: edges[child.name] for child in children[node.name]},
            stores={name: stores[name] for name in node.stores} if isinstance(node, ProcessorNode) else {},
            global_stores=global_stores,
            collector=collector,
            processors=processors,
            punctuations=queues,
            undecoded_key=undecoded.keys.get(node.name),
            undecoded_value=undecoded.values.get(node.name),
            hands_on_bytes=any(child.name in undecoded.keys for child in children[node.name]),
            sink_key_serdes=_sink_key_serdes(children[node.name]),
            sender_of=sender_of,
            cached_stores=cached_stores,
            calls=calls,
            emits_in_order=calls is not None and (calls.all_in_order or emits_in_order(node, children, program.stores)),
        )
        edge = _edge_into(node, wiring, expiry)
        if (child := next((child for child, into in wiring.children.items() if into is edge), None)) is not None:
            passes_to[node.name], edge = child, own_function(edge)
        edges[node.name] = edge
    if meter is not None and not _is_too_deep(nodes, children):
        _connect(meter, edges, passes_to, stores, processors, expiry, calls)

    def enter(source: SourceTopic) -> Source:
        made = _source(source, [edges[child.name] for child in children[source.node]], undecoded)
        if meter is not None and meter.knows_edges:
            meter.connect_source(made.node, made.head, partial(setattr, made, "head"))
        return made

    if calls is not None:
        calls.operators.reverse()  # they were composed from the sinks backwards
    sources = {topic: enter(source) for topic, source in program.sources.items()}
    prefetched = {topic: _reached_stores(source, children, stores) for topic, source in program.sources.items()}
    return Composed(sources, tuple(reversed(processors)), prefetched, enter)


def _edge_into(node: SinkNode | ProcessorNode, wiring: Wiring, expiry: Expiry | None) -> Edge:
    if isinstance(node, SinkNode):
        return sink(node, node.topic if isinstance(node.topic, str) else None, wiring)
    edge, operator = make_closure(node.operator, wiring), node.operator
    if isinstance(operator, Wrapped):
        operator = operator.inner
    if expiry is not None and isinstance(operator, TableOperator):
        return expiring(operator, edge, wiring, expiry)
    return edge


def _is_too_deep(nodes: Sequence[Node], children: Mapping[str, Sequence[Node]]) -> bool:
    deep: dict[str, int] = {}
    for node in reversed(nodes):
        deep[node.name] = 1 + max([deep[child.name] for child in children[node.name]], default=0)
    return max(deep.values(), default=0) > MOST_DEEP


def _connect(
    meter: OperatorMeter,
    edges: Mapping[str, Edge],
    passes_to: Mapping[str, str],
    stores: Mapping[str, Store],
    processors: Sequence[Hosted],
    expiry: Expiry | None,
    calls: TaskCalls | None,
) -> None:
    """Connect ``meter`` with all functions that forward to ``edges``."""
    calling = calls.operators if calls is not None else []
    forwards = [forward for store in stores.values() for forward in store.forwards]
    expired = expiry.forwards if expiry is not None else []
    meter.connect(edges, passes_to, [*processors, *forwards, *expired, *(each.emit for each in calling)])
    for each in calling:
        meter.swap(partial(setattr, each, "emit"), meter.within(each.name, each.emit), each.emit)


def _sink_key_serdes(children: Iterable[Node]) -> tuple[Serde[Any], ...]:
    return tuple(each.key_serde for each in children if isinstance(each, SinkNode) and each.key_serde is not None)


def _source(source: SourceTopic, edges: list[Edge], undecoded: Undecoded) -> Source:
    return Source(
        topic=source.topic,
        key=_part(source.key_serde, source.node in undecoded.keys),
        value=_part(source.value_serde, source.node in undecoded.values),
        extractor=source.extractor,
        head=fan_out(edges),
        node=source.node,
    )


def _part(serde: Serde[Any], raw: bool) -> Part:
    return Part(None, serde.check) if raw else Part(serde.deserialize)


def _reached_stores(
    source: SourceTopic, children: Mapping[str, Sequence[Node]], stores: Mapping[str, Store]
) -> tuple[Store, ...]:
    """Returns the stores that the records of ``source`` will look up under the bytes of the key they come in with.

    Only stores with the same key serde are among them. If a serde writes other bytes than it read, some rows are read
    without use.
    """

    def following(node: Node) -> Iterable[Node]:
        return children[node.name] if isinstance(node, ProcessorNode) and node.operator.keeps_key else ()

    below = reachable(children[source.node], following)
    names = [name for node in below if isinstance(node, ProcessorNode) for name in node.operator.stores_by_key]
    looked_into = {name: stores[name] for name in names}
    return tuple(store for store in looked_into.values() if store.key_serde == source.key_serde)
