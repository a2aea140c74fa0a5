"""The player answers every line: a case that it cannot play costs that case alone."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.architecture.sources import ROOT
from tests.parity.play import answer
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.xdist_group("play")

PLAYABLE: dict[str, Any] = {
    "name": "playable",
    "config": {},
    "topology": [
        {"op": "stream", "topic": "in", "key": "string", "value": "string", "id": "n1"},
        {"op": "map_values", "in": "n1", "fn": "upper", "value": "string", "id": "n2"},
        {"op": "to", "in": "n2", "topic": "out", "id": "n3"},
    ],
    "input": [{"topic": "in", "key": "k", "value": "v", "ts": 7}],
}
STREAM = PLAYABLE["topology"][0]


def case(name: str, *steps: dict[str, Any], **changes: Any) -> bytes:
    return orjson.dumps({**PLAYABLE, "name": name, "topology": [STREAM, *steps], **changes})


UNPLAYABLE = {
    "an operator that is not there": (case("a", {"op": "teleport", "in": "n1", "id": "n2"}), "a", "'teleport'"),
    "an operator on what it cannot be called on": (
        case("b", {"op": "count", "in": "n1", "id": "n2"}),
        "b",
        "a KStream",
    ),
    "an operator without its fields": (case("c", {"op": "filter", "in": "n1", "id": "n2"}), "c", "'fn'"),
    "a topology that cannot be": (case("d", {"op": "to", "in": "n1", "topic": "no topic!"}), "d", "TopologyError"),
    "a record of a topic that is not read": (
        case("e", input=[{"topic": "other", "key": "k", "value": "v", "ts": 7}]),
        "e",
        "other",
    ),
    "a function that raises": (
        case(
            "f",
            {"op": "map_values", "in": "n1", "fn": "no_such_function", "id": "n2"},
            {"op": "to", "in": "n2", "topic": "out"},
        ),
        "f",
        "no_such_function",
    ),
    "a case without a topology": (b'{"name": "g"}', "g", "'config'"),
    "a line that is no JSON": (b'{"name": "h", ', None, "JSONDecodeError"),
    "a line that is no object": (b"[1, 2]", None, "list"),
    "a line that is not UTF-8": (b"\xff\xfe", None, "JSONDecodeError"),
}


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """The answers to each unplayable line, with a case that can be played behind it."""
    lines = [line for unplayable, _, _ in UNPLAYABLE.values() for line in (unplayable, orjson.dumps(PLAYABLE), b"")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.parity.play"],
        input=b"\n".join(lines), cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return [orjson.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(UNPLAYABLE)), ids=UNPLAYABLE.keys())
def test_a_case_that_cannot_be_played_is_answered_with_its_name_and_an_error(
    answers: list[dict[str, Any]], number: int
) -> None:
    _, name, message = list(UNPLAYABLE.values())[number]
    answer = answers[2 * number]
    assert answer.keys() == {"name", "error"}
    assert answer["name"] == name
    assert message in answer["error"]


def test_the_cases_behind_are_played(answers: list[dict[str, Any]]) -> None:
    assert len(answers) == 2 * len(UNPLAYABLE)
    for played in answers[1::2]:
        assert played["output"] == {"out": [{"key": "k", "value": "V", "ts": 7}]}


def test_every_case_of_the_corpus_is_answered_in_order() -> None:
    with gzip.open(Path(__file__).with_name("golden.jsonl.gz"), "rb") as file:
        lines = list(file)
    answers = [orjson.loads(answer(line)) for line in lines]
    assert [answered["name"] for answered in answers] == [orjson.loads(line)["name"] for line in lines]
    assert all("error" in answered or "output" in answered for answered in answers)
