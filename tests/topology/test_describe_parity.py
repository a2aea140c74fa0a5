"""Every case of the corpus whose operators penstock has is described to the letter as by Kafka Streams 4.3.1."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

import penstock as ps
from tests.parity.build import build

CORPUS = Path(__file__).parent.parent / "parity" / "golden.jsonl.gz"
SHAPES = ("stateless", "aggregate", "stream_table", "process", "stream_global")


def cases() -> list[dict[str, Any]]:
    with gzip.open(CORPUS) as lines:
        every = [orjson.loads(line) for line in lines]
    return [case for case in every if case["name"].rsplit("-", 2)[0] in SHAPES]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_description_is_that_of_kafka_streams(case: dict[str, Any]) -> None:
    assert build(case).topology.describe() == case["description"]


def test_the_corpus_holds_fifty_cases_of_each_shape() -> None:
    assert len(cases()) == 50 * len(SHAPES)


Parts = dict[int, dict[str, tuple[str, set[str], list[str], list[str]]]]
"""By sub-topology and node: its first line without the name, as kind and list, and the nodes below and above it."""


def parts_of_text(text: str) -> Parts:
    parts: Parts = {}
    for line in text.splitlines()[1:]:
        if (sub := re.match(r" +Sub-topology: (\d+)", line)) is not None:
            nodes = parts.setdefault(int(sub[1]), {})
        elif (
            node := re.match(r"    (\w+): (.+) \((topics?|stores|extractor class): \[?(.*?)\]?\)$", line)
        ) is not None:
            below: list[str] = []
            above: list[str] = []
            nodes[node[2]] = node[1], set(node[4].split(", ")) - {""}, below, above
        elif (arrow := re.match(r"      (-->|<--) (.*)", line)) is not None:
            (below if arrow[1] == "-->" else above).extend(each for each in arrow[2].split(", ") if each != "none")
    return parts


def parts_of(described: ps.TopologyDescription) -> Parts:
    subs = [(sub.id, sub.nodes) for sub in described.subtopologies]
    stores = [(store.id, (store.source, store.processor)) for store in described.global_stores]
    return {number: {node.name: part_of(node) for node in nodes} for number, nodes in [*subs, *stores]}


def part_of(node: ps.TopologyDescription.Node) -> tuple[str, set[str], list[str], list[str]]:
    below, above = list(node.successors), list(node.predecessors)
    match node:
        case ps.TopologyDescription.Source():
            return "Source", set(node.topics), below, above
        case ps.TopologyDescription.Processor():
            return "Processor", set(node.stores), below, above
        case ps.TopologyDescription.Sink():
            return "Sink", {str(node.topic)}, below, above
    raise AssertionError(node)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_parts_of_the_description_are_those_of_the_text_of_kafka_streams(case: dict[str, Any]) -> None:
    assert parts_of(build(case).topology.describe()) == parts_of_text(case["description"])


def test_a_description_has_patterns_and_functions_that_name_topics() -> None:
    def topic(key: str, value: str, context: ps.RecordContext) -> str:
        return value

    text = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    read = builder.stream(re.compile("in-.*"), ps.Consumed.with_(text, text))
    read.to(topic, ps.Produced.with_(text, text))
    described = builder.build().describe()
    [source, sink] = described.subtopologies[0].nodes
    assert isinstance(source, ps.TopologyDescription.Source)
    assert isinstance(sink, ps.TopologyDescription.Sink)
    assert (source.topics, source.topic_pattern) == ((), re.compile("in-.*"))
    assert (sink.topic, sink.topic_name_extractor) == (None, topic)


def test_a_description_is_text_for_other_programs_and_processes() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").to("out")
    described = builder.build().describe()
    assert pickle.loads(pickle.dumps(described)) == described
    assert type(pickle.loads(pickle.dumps(described))) is str
    assert json.loads(json.dumps(described)) == orjson.loads(orjson.dumps(described)) == described
    assert str(described).startswith("Topologies:\n   Sub-topology: 0\n")
