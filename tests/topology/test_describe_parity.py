"""Every case of the corpus whose operators penstock has is described to the letter as by Kafka Streams 4.3.1."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

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
