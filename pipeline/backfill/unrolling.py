"""Unrolls a cycle of sub-topologies into passes, of which none reads what a later one writes. Pure.

The sub-topologies of a join by foreign key write to each other, but their operators are in no cycle: what sends the
subscriptions of the left table does not depend on the responses. So the operators that lead to the subscriptions run
first, then the other table's, then all of the left table's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from penstock.pipeline.backfill.order import StageSubtopologies
from penstock.topology.physical.operators.stateless import PassThrough
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode, Subtopology


@dataclass(frozen=True)
class UnrolledPass:
    """A pass over ``subtopology``, which is whole or, if ``partial``, only has what leads to the topics that the pass
    writes. ``writes``: repartition topics of the cycle, without the application's prefix."""

    subtopology: Subtopology
    writes: frozenset[str]
    partial: bool


def unrolled(cycle: StageSubtopologies) -> tuple[UnrolledPass, ...] | None:
    """Returns the passes of ``cycle``, each after those that write what it reads; None if there are none: if what leads
    to a topic depends on that topic, or on objects of the user or on stores that change by themselves. These see the
    records of all topics, or their times, and a partial pass has not all."""
    graph = _Graph(cycle)
    levels = graph.levels()
    if levels is None:
        return None
    found: list[tuple[int, bool, int, UnrolledPass]] = []
    for sub in cycle.subtopologies:
        read = [levels[topic] for source in sub.sources for topic in source.topics if topic in cycle.inner]
        last = max(read, default=-1) + 1
        written = {topic: levels[topic] for node in sub.nodes for topic in _inner_topic(node, cycle.inner)}
        for level in sorted({level for level in written.values() if level < last}):
            topics = frozenset(topic for topic, own in written.items() if own == level)
            part = graph.leading_to(sub, topics)
            if part is None:
                return None
            found.append((level, False, sub.id, UnrolledPass(part, topics, partial=True)))
        topics = frozenset(topic for topic, own in written.items() if own >= last)
        found.append((last, True, sub.id, UnrolledPass(sub, topics, partial=False)))
    return tuple(each for *_, each in sorted(found, key=lambda entry: entry[:3]))


def _inner_topic(node: Node, inner: Collection[str]) -> tuple[str, ...]:
    if isinstance(node, SinkNode) and node.internal and isinstance(node.topic, str) and node.topic in inner:
        return (node.topic,)
    return ()


def _only_passes_on(node: Node) -> TypeGuard[ProcessorNode]:
    return isinstance(node, ProcessorNode) and isinstance(node.operator, PassThrough)


class _Graph:
    """The operators of a cycle, and what they depend on."""

    def __init__(self, cycle: StageSubtopologies) -> None:
        self._inner = cycle.inner
        self._nodes = {node.name: node for sub in cycle.subtopologies for node in sub.nodes}
        self._writers: dict[str, list[str]] = {}
        for node in self._nodes.values():
            if isinstance(node, ProcessorNode):
                for store in set(node.stores) - node.operator.stores_looked_into:
                    self._writers.setdefault(store, []).append(node.name)
        self._sinks: dict[str, list[str]] = {topic: [] for topic in cycle.inner}
        for node in self._nodes.values():
            for topic in _inner_topic(node, cycle.inner):
                self._sinks[topic].append(node.name)

    def levels(self) -> dict[str, int] | None:
        """Returns for each inner topic the number of topics that must be written one after the other before it; None if
        a topic depends on itself."""
        depends = {topic: self._read_by(self._above(sinks)) for topic, sinks in self._sinks.items()}
        levels: dict[str, int] = {}
        while len(levels) < len(depends):
            ready = [topic for topic, on in depends.items() if topic not in levels and on <= levels.keys()]
            if not ready:
                return None
            levels |= {topic: 1 + max((levels[other] for other in depends[topic]), default=-1) for topic in ready}
        return levels

    def leading_to(self, sub: Subtopology, topics: Iterable[str]) -> Subtopology | None:
        """Returns the part of ``sub`` whose operators lead to ``topics``; None if it would do other things alone."""
        names = self._above(sink for topic in topics for sink in self._sinks[topic])
        # A branch calls its children by their names. Those that lead to no topic here only end the way of a record.
        # A merge with an operator that is left out is left out too.
        names |= {node.name for node in sub.nodes if _only_passes_on(node) and names.issuperset(node.parents)}
        nodes = tuple(node for node in sub.nodes if node.name in names)
        processors = [node for node in nodes if isinstance(node, ProcessorNode)]
        used = {store for node in processors for store in node.stores}
        stores = tuple(store for store in sub.stores if store.name in used)
        if any(node.operator.runs_user_objects or node.operator.wrapped for node in processors) or any(
            store.changes_by_itself for store in stores
        ):
            return None
        return replace(sub, nodes=nodes, stores=stores)

    def _read_by(self, names: Collection[str]) -> set[str]:
        nodes = (self._nodes[name] for name in names)
        return {topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics} & self._inner

    def _above(self, names: Iterable[str]) -> set[str]:
        """Returns these nodes and all that they depend on: by an edge, or by a store."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._before(self._nodes[name])
        return found

    def _before(self, node: Node) -> Iterator[str]:
        if isinstance(node, SourceNode):
            return
        yield from node.parents
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                yield from self._writers.get(store, ())
