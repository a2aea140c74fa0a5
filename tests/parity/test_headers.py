"""Cases with headers on their records, most of them under ``dsl.store.format=HEADERS`` (KIP-1285).

Kafka Streams 4.3.1 played them (``headers.jsonl.gz``). In ``internal`` each record has a fourth field here: its
headers, as name, value in hex, name, …
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from penstock.testing.topology_test_driver import TopologyTestDriver
from tests.parity import play as player
from tests.parity.corpus import read
from tests.parity.play import play
from tests.parity.restarts import RestartingDriver, forgets

CASES = read("headers.jsonl.gz")


def _name(case: dict[str, Any]) -> str:
    return str(case["name"])


def _with_headers(case: dict[str, Any], *given: Any) -> dict[str, Any]:
    headers: dict[str, list[list[str | None]]] = {}

    def keep(driver: TopologyTestDriver) -> None:
        topics = driver._collector.topics
        for topic, records in topics.items():
            headers[topic] = [
                [text for name, data in record[3] for text in (name, None if data is None else data.hex())]
                for record in records
            ]

    inner = player._internal

    def internal(driver: TopologyTestDriver) -> dict[str, Any]:
        keep(driver)
        return inner(driver)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(player, "_internal", internal)
        played = play(case, *given)
    for topic, records in played["internal"].items():
        played["internal"][topic] = [[*record, own] for record, own in zip(records, headers[topic], strict=True)]
    return played


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_stores_and_changelogs_have_the_headers_of_kafka_streams(case: dict[str, Any]) -> None:
    played = _with_headers(case)
    for field in ("output", "internal", "stores", "description", "metrics"):
        assert played[field] == case[field], field


@pytest.mark.parametrize("case", [case for case in CASES if not forgets(case)], ids=_name)
def test_a_task_with_headers_continues_after_a_restart(case: dict[str, Any]) -> None:
    number = Random(case["name"]).randrange(1, len(case["input"]))

    def restart(driver: TopologyTestDriver, record: int) -> None:
        if record == number:
            assert isinstance(driver, RestartingDriver)
            driver.restart()

    played = _with_headers(case, partial(RestartingDriver, state=None), restart)
    for field in ("output", "internal", "stores"):
        assert played[field] == case[field], f"{field}; restarted before record {number}"


def test_the_cases_have_headers_where_they_count() -> None:
    """Guards against a comparison that passes because both sides are empty."""
    logged = [
        record[3]
        for case in CASES
        if case["config"].get("dsl.store.format") == "HEADERS"
        for topic, records in case["internal"].items()
        if topic.endswith("-changelog")
        for record in records
    ]
    assert sum(map(bool, logged)) > 100
