"""The diagram of a topology: what its picture shows (``topology/picture``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operators.global_tables import GlobalProcess, StreamGlobalTableJoin
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.operators.process import AddedProcess, Process, ReadOnlyStoreProcess
from penstock.topology.physical.operators.wrapped import Wrapped
from penstock.topology.physical.topology import (
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    Subtopology,
    Topology,
    changelog_topic,
)
from penstock.topology.picture.diagram import BoxKind, Diagram, LanePart, LinkPart, Part, part_id

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOTES: dict[type[Operator], str] = {
    Process: "process",
    AddedProcess: "process",
    ReadOnlyStoreProcess: "keeps a read-only store",
    GlobalProcess: "keeps a global store",
}


def diagram_of(topology: Topology, application_id: str | None = None) -> Diagram:
    """Returns the diagram. The names of internal topics lack the application's prefix, as in ``describe()``; with
    ``application_id`` their titles have it."""
    title = "Topology" if application_id is None else f"Topology of {application_id}"
    lanes = tuple(_lane(sub, sub in topology.global_subtopologies) for sub in topology.every_subtopology)
    return _Writer(topology, application_id).diagram(title, lanes)


def _lane(sub: Subtopology, is_global: bool) -> LanePart:
    return LanePart(_lane_id(sub), f"Sub-topology {sub.id}{': global store' if is_global else ''}", is_global)


def _lane_id(sub: Subtopology) -> str:
    return part_id("subtopology", str(sub.id))


class _Writer:
    def __init__(self, topology: Topology, application_id: str | None) -> None:
        self._topology = topology
        self._prefix = "" if application_id is None else f"{application_id}-"
        self._parts: dict[str, Part] = {}
        self._links: dict[LinkPart, None] = {}

    def diagram(self, title: str, lanes: tuple[LanePart, ...]) -> Diagram:
        """Returns the diagram of all sub-topologies, each topic once."""
        for sub in self._topology.every_subtopology:
            for node in sub.nodes:
                self._add_node(node, sub)
        return Diagram(title, lanes, tuple(self._parts.values()), tuple(self._links))

    def _add_node(self, node: Node, sub: Subtopology) -> None:
        here = part_id("node", node.name)
        lane = _lane_id(sub)
        if isinstance(node, SourceNode):
            kind, note = BoxKind.SOURCE, "source"
        elif isinstance(node, ProcessorNode):
            kind, note = BoxKind.PROCESSOR, _note(node.operator)
        else:
            kind, note = BoxKind.SINK, "sink"
        title = f"{node.name}: {note}, in sub-topology {sub.id}"
        self._parts[here] = Part(here, kind, node.name, note, title, lane)
        if isinstance(node, SourceNode):
            for topic in self._read(node):
                self._link(topic, here)
            return
        for parent in node.parents:
            self._link(part_id("node", parent), here)
        if isinstance(node, SinkNode):
            self._link(here, self._written(node))
        else:
            for store in self._stores(node, sub):
                self._link(here, store)

    def _link(self, source: str, target: str) -> None:
        self._links[LinkPart(source, target)] = None

    def _read(self, node: SourceNode) -> Iterator[str]:
        if node.pattern is not None:
            yield self._other_topic("pattern", node.pattern.pattern, "topics by pattern", "all topics that match")
            return
        for topic in node.topics:
            yield self._topic(topic)

    def _written(self, node: SinkNode) -> str:
        if isinstance(node.topic, str):
            return self._topic(node.topic)
        function = getattr(node.topic, "__qualname__", type(node.topic).__qualname__)
        # Two functions may have one name.
        return self._other_topic("topics-of", node.name, "topics by function", "topics that a function names", function)

    def _topic(self, name: str) -> str:
        here = part_id("topic", name)
        if name in self._topology.repartition_topics:
            title = f"repartition topic {self._prefix}{name}"
            self._parts.setdefault(here, Part(here, BoxKind.REPARTITION, name, "repartition topic", title))
        else:
            self._parts.setdefault(here, Part(here, BoxKind.TOPIC, name, "topic", f"topic {name}"))
        return here

    def _other_topic(self, kind: str, name: str, note: str, title: str, shown: str | None = None) -> str:
        here = part_id(kind, name)
        shown = name if shown is None else shown
        self._parts.setdefault(here, Part(here, BoxKind.TOPIC, shown, note, f"{title}: {shown}"))
        return here

    def _stores(self, node: ProcessorNode, sub: Subtopology) -> Iterator[str]:
        builders = {store.name: store for store in sub.stores}
        for name in node.stores:
            here = part_id("store", name)
            if here not in self._parts:
                self._parts[here] = self._store(here, builders[name], _lane_id(sub))
            yield here
        for name in _global_stores_of(node.operator):
            # Each lane that reads a global store has a box for it, because the store itself is in another lane.
            here = part_id(f"global-store-in-{sub.id}", name)
            title = f"global store {name}, which another sub-topology keeps"
            self._parts.setdefault(here, Part(here, BoxKind.GLOBAL_STORE, name, "global store", title, _lane_id(sub)))
            yield here

    def _store(self, here: str, store: AnyStoreBuilder, lane: str) -> Part:
        changelog = changelog_topic("", store)
        if changelog is None:
            short = full = "no changelog"
        elif store.source_topic is not None:
            short = full = f"changelog {changelog}"
        else:
            name = changelog.removeprefix("-")
            short, full = "changelog", f"changelog {self._prefix}{name}"
        title = f"{store.kind} store {store.name}, {full}"
        return Part(here, BoxKind.STORE, store.name, f"{store.kind}, {short}", title, lane)


def _note(operator: Operator) -> str:
    if isinstance(operator, Wrapped):
        return f"{_note(operator.inner)}, wrapped"
    words = _NOTES.get(type(operator)) or _CAPITAL.sub(" ", type(operator).__name__).lower()
    return words.replace("join", "left join") if getattr(operator, "left", False) else words


def _global_stores_of(operator: Operator) -> tuple[str, ...]:
    if isinstance(operator, Wrapped):
        return _global_stores_of(operator.inner)
    return (operator.global_store,) if isinstance(operator, StreamGlobalTableJoin) else ()
