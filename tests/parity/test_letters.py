"""The dead letters of bad records are Kafka Streams', byte for byte, but for names and traces of exceptions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.parity.letters import KEPT, play

CASES = [orjson.loads(line) for line in KEPT.read_bytes().splitlines()]
BYTES_GONE_THERE = {"sent before": ("b", "bad")}
"""Kafka Streams forgets the bytes of a record with its first result; penstock keeps them."""
BYTES_GONE_HERE = {"suppress"}
"""Kafka Streams keeps the bytes of what ``suppress`` holds back in memory; penstock does not."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_letters_of_a_case_are_those_of_kafka_streams(case: dict[str, Any]) -> None:
    name, played = case["name"], play(case)
    for theirs, ours in zip(case["letters"], played["letters"], strict=True):
        if name in BYTES_GONE_THERE:
            assert (theirs["key"], theirs["value"]) == (None, None)
            theirs = {**theirs, "key": BYTES_GONE_THERE[name][0], "value": BYTES_GONE_THERE[name][1]}
        elif name in BYTES_GONE_HERE:
            theirs = {**theirs, "key": None, "value": None}
        assert ours == theirs
    assert played["dropped"] == case["dropped"]
