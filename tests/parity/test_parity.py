"""What penstock makes of a case is what Kafka Streams 4.3.1 made of it, in every field, byte for byte."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.parity.play import play

SHAPES = ("stateless", "aggregate", "stream_table", "process")
FIELDS = ("output", "internal", "stores", "description", "metrics")


def _cases() -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).with_name("golden.jsonl.gz"), "rb") as lines:
        cases = [orjson.loads(line) for line in lines]
    return [case for case in cases if case["name"].rsplit("-", 2)[0] in SHAPES]


CASES = _cases()


def test_the_corpus_has_every_shape() -> None:
    assert {case["name"].rsplit("-", 2)[0] for case in CASES} == set(SHAPES)
    assert len(CASES) >= 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_penstock_does_what_kafka_streams_did(case: dict[str, Any]) -> None:
    played = play(case)
    for field in FIELDS:
        assert played[field] == case[field], field
