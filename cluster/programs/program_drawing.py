"""Draws a version of the program, and lists its operators. Pure, but takes some time for a large topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.program_view import (
    BoxView,
    FunctionView,
    LaneView,
    LineView,
    OperatorView,
    PictureView,
    ProgramView,
)
from penstock.common.functions import place_with_class_of
from penstock.topology.physical.diagrams import diagram_of
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, SourceNode, Topology, internal_topic
from penstock.topology.picture.diagram import part_id
from penstock.topology.picture.picture import Picture, picture_of
from penstock.topology.picture.svg import path_of


def program_view(spec: ApplicationSpec, generation: int) -> ProgramView:
    """Returns the view of a version."""
    topology = spec.topology
    picture = picture_of(diagram_of(topology, spec.application_id))
    kinds = {box.part.name: box.part.note for box in picture.boxes if box.part.id.startswith("node:")}
    in_kafka = {
        topic: internal_topic(spec.application_id, topic) if topic in topology.repartition_topics else topic
        for sub in topology.every_subtopology
        for node in sub.nodes
        for topic in _topics(node)
    }
    operators = {
        node.name: OperatorView(
            kinds[node.name],
            sub.id,
            tuple(_functions(node)),
            node.stores if isinstance(node, ProcessorNode) else (),
            tuple(in_kafka[topic] for topic in _topics(node)),
        )
        for sub in topology.every_subtopology
        for node in sub.nodes
    }
    return ProgramView(generation, fingerprint_of(topology), _picture(picture, in_kafka), operators)


def fingerprint_of(topology: Topology) -> str:
    """Returns the beginning of the SHA-256 of the topology's description, in hexadecimal digits."""
    return sha256(topology.describe().encode()).hexdigest()[:16]


def _picture(picture: Picture, in_kafka: Mapping[str, str]) -> PictureView:
    topics = {part_id("topic", topic): name for topic, name in in_kafka.items()}
    return PictureView(
        picture.title,
        picture.width,
        picture.height,
        tuple(
            LaneView(it.part.id, it.part.name, it.part.is_global, it.x, it.y, it.width, it.height, it.name_x)
            for it in picture.lanes
        ),
        tuple(
            BoxView(
                it.part.id,
                it.part.kind.value,
                it.name,
                it.note,
                it.part.title,
                it.part.lane,
                topics.get(it.part.id),
                it.x,
                it.y,
                it.width,
                it.height,
            )
            for it in picture.boxes
        ),
        tuple(
            LineView(it.part.id, it.part.source, it.part.target, it.to_store, path_of(it)) for it in picture.lines
        ),
    )  # fmt: skip


def _functions(node: Node) -> Iterator[FunctionView]:
    if isinstance(node, ProcessorNode):
        for each in node.operator.functions:
            yield from _function(each.role, each.function)
    elif isinstance(node, SourceNode):
        if node.timestamp_extractor is not None:
            yield from _function("timestamp extractor", node.timestamp_extractor)
    else:
        if not isinstance(node.topic, str):
            yield from _function("topic", node.topic)
        if node.partitioner is not None:
            yield from _function("partitioner", node.partitioner)


def _function(role: str, function: Callable[..., Any]) -> Iterator[FunctionView]:
    if str(getattr(function, "__module__", "")).startswith("penstock.topology."):
        return  # the DSL's own
    place = place_with_class_of(function)
    yield FunctionView(role, place.name, place.file, place.line)


def _topics(node: Node) -> Iterator[str]:
    """Yields the topics that are named in the program."""
    named = node.topics if isinstance(node, SourceNode) else (node.topic,) if isinstance(node, SinkNode) else ()
    yield from (topic for topic in named if isinstance(topic, str))
