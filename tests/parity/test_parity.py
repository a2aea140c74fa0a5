"""Penstock's answer to a case is that of Kafka Streams 4.3.1, in every field, byte for byte.

``golden.jsonl.gz`` is the corpus with which other implementations are compared, too. ``more.jsonl.gz`` was picked from
2,150 random cases for what they combine: several sub-topologies, branches repartitioned and merged again, tables joined
twice, stores without caching, punctuators due together, headers, nulls, equal and falling timestamps. ``found.jsonl``
has what ``make fuzz-parity`` found, made small. ``by_hand.jsonl.gz`` was written for the Processor API: topologies
built node by node, alone and with the DSL.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity import corpus
from tests.parity.compare import FIELDS
from tests.parity.play import play

SHAPES = (
    "stateless",
    "aggregate",
    "stream_table",
    "process",
    "table_table",
    "table_ops",
    "foreign_key",
    "windowed",
    "stream_stream",
    "stream_global",
    "cogroup",
    "versioned",
)

NOT_YET: set[str] = set()

CASES = [
    case
    for case in corpus.read("golden.jsonl.gz")
    if case["name"].rsplit("-", 2)[0] in SHAPES and NOT_YET.isdisjoint(step["op"] for step in case["topology"])
]
MORE = corpus.read("more.jsonl.gz")
FOUND = corpus.read(corpus.FOUND)
BY_HAND = corpus.read(corpus.BY_HAND)


def test_the_corpus_has_every_shape() -> None:
    assert {case["name"].rsplit("-", 2)[0] for case in CASES} == set(SHAPES)
    assert len(CASES) >= 200
    assert len(MORE) >= 59
    assert FOUND
    assert len(BY_HAND) >= 35


@pytest.mark.parametrize("case", CASES + MORE + FOUND + BY_HAND, ids=lambda case: case["name"])
def test_penstock_does_what_kafka_streams_did(case: dict[str, Any]) -> None:
    played = play(case)
    for field in FIELDS:
        assert played[field] == case[field], field
