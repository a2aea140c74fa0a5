"""Random cases of deduplicate, TTL and idle windows: a sample of them against the model, and what the model can see."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import pytest
from typer import BadParameter

from tests.parity.fuzz import against_model
from tests.parity.fuzz.__main__ import main, told_of_model
from tests.parity.fuzz.against_model import WAYS, ModelReport, differing_from_model, hold_against_model
from tests.parity.fuzz.own import SHAPES, generate_own
from tests.parity.ops_own import IDLE, asks_for_own
from tests.parity.play import play

SEED = 20261122
CASES = [generate_own(SEED, number) for number in range(120)]
PLAYED = CASES[:40]
Case = dict[str, Any]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case["name"])
def test_penstock_agrees_with_the_model(case: Case, way: str) -> None:
    assert differing_from_model(case, way) is None


def test_cases_have_all_that_the_model_is_there_for() -> None:
    assert [case["name"].partition("-")[0] for case in CASES[:4]] == list(SHAPES)
    ops = Counter(step["op"] for case in CASES for step in case["topology"])
    assert set(ops) == {
        *("stream", "table", "to", "filter", "map_values", "flat_map_values", "select_key", "merge", "to_stream"),
        *("deduplicate", "process", "to_table", "group_by_key", "group_by", "count", "reduce", "aggregate"),
        *("stream_table", "table_table", "time_window", "windowed_to_stream"),
    }
    with_ttl = Counter(step["op"] for case in CASES for step in case["topology"] if "ttl_ms" in step)
    kept = {"table", "to_table", "count", "reduce", "aggregate", "filter", "map_values", "table_table", "process"}
    assert set(with_ttl) == kept
    assert any(IDLE in case["config"] for case in CASES)
    assert sum(map(asks_for_own, CASES)) > 0.9 * len(CASES)


def test_the_same_seed_makes_the_same_cases_and_another_makes_others() -> None:
    assert [generate_own(SEED, number) for number in range(8)] == CASES[:8]
    assert all(generate_own(SEED + 1, number)["input"] != CASES[number]["input"] for number in range(8))


def _longer(case: Case) -> Case:
    """Returns ``case`` with each interval of time a quarter longer."""
    fields = ("ttl_ms", "within_ms", "grace_ms")
    longer = {field: lambda ms: ms + ms // 4 + 1 for field in fields}
    steps = [
        {name: longer[name](value) if name in longer else value for name, value in step.items()}
        for step in case["topology"]
    ]
    return {**case, "topology": steps}


@pytest.mark.parametrize("shape", sorted(set(SHAPES)))
def test_another_interval_is_a_difference_that_is_reported_minimised(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against_model, "play", lambda case: play(_longer(case)))
    report, reported = ModelReport(), list[str]()
    cases = (case for case in CASES if case["name"].startswith(shape))
    hold_against_model(islice(cases, 20), 0, reported.append, report)
    while not report.differences:
        hold_against_model(islice(cases, 1), 0, reported.append, report)
    (difference,) = report.differences
    assert difference.way == "whole"
    assert len(difference.case["topology"]) <= 8
    assert len(difference.case["input"]) <= 4
    assert reported[0].startswith(f"{difference.found} differs from the model, whole\n")
    assert f"{report.cases} cases against the model" in told_of_model(report)
    assert "1 differ" in told_of_model(report)


def test_a_restart_that_forgets_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        {"op": "stream", "topic": "in", "id": "in"},
        {"op": "deduplicate", "in": "in", "within_ms": 10, "logging": False, "id": "once"},
        {"op": "to", "in": "once", "topic": "out", "id": "out"},
    ]
    events = [{"topic": "in", "key": "a", "value": "a", "ts": number} for number in range(5)]
    case = {"name": "forgets-1-1", "config": {}, "topology": steps, "input": events}
    assert differing_from_model(case, WAYS[0]) is None
    for way in WAYS[1:]:
        assert "the model" in str(differing_from_model(case, way))


def test_a_difference_from_the_model_is_kept_in_no_file_and_a_request_for_that_is_refused() -> None:
    with pytest.raises(BadParameter, match="what differs from it is shown"):
        main(seconds=0, seed=SEED, model=True, keep=True)


def test_a_case_that_penstock_refuses_is_a_difference() -> None:
    case = {**CASES[0], "topology": [*CASES[0]["topology"], {"op": "teleport", "in": "n1", "id": "n99"}]}
    with pytest.raises(AttributeError):
        differing_from_model(case, WAYS[0])  # the model knows no more
    refused = {**CASES[0], "config": {"processing.guarantee": "never"}}
    assert "penstock: ConfigError" in str(differing_from_model(refused, WAYS[0]))
