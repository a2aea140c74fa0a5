"""What penstock makes of a case is what Kafka Streams 4.3.1 made of it, in every field, byte for byte.

``golden.jsonl.gz`` is the corpus that other implementations are held against too. ``more.jsonl.gz`` was picked from
2,150 random cases for what they combine: several sub-topologies, branches repartitioned and merged again, tables joined
twice, stores without caching, punctuators due together, headers, nulls, equal and falling timestamps.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.parity.play import play

SHAPES = ("stateless", "aggregate", "stream_table", "process")
FIELDS = ("output", "internal", "stores", "description", "metrics")


def _cases(file: str) -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).with_name(file), "rb") as lines:
        return [orjson.loads(line) for line in lines]


CASES = [case for case in _cases("golden.jsonl.gz") if case["name"].rsplit("-", 2)[0] in SHAPES]
MORE = _cases("more.jsonl.gz")


def test_the_corpus_has_every_shape() -> None:
    assert {case["name"].rsplit("-", 2)[0] for case in CASES} == set(SHAPES)
    assert len(CASES) >= 200
    assert len(MORE) >= 59


@pytest.mark.parametrize("case", CASES + MORE, ids=lambda case: case["name"])
def test_penstock_does_what_kafka_streams_did(case: dict[str, Any]) -> None:
    played = play(case)
    for field in FIELDS:
        assert played[field] == case[field], field
