"""Scenarios by the table: every kind of join, window and suppression, each over the same few inputs.

The inputs cover the cases that joins, windows and suppressions of Kafka Streams distinguish: sides that come in turn,
deletions of what is there and of what is not, times that fall, equal times, null keys, gaps just as long as the window.
The expected results are those of Kafka Streams 4.3.1 (``make golden`` asks it again), after every record and in every
field.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from penstock.testing.topology_test_driver import TopologyTestDriver
from tests.parity import corpus
from tests.parity.compare import FIELDS
from tests.parity.play import play
from tests.parity.restarts import RestartingDriver, forgets

CASES = corpus.read(corpus.TABLES)

ROWS = {
    "stream-stream": ("inner", "left", "outer", "with itself", "repartitioned", "three ways"),
    "stream-table": ("inner", "left"),
    "stream-versioned": ("inner", "left", "grace 20"),
    "stream-global": ("inner", "left"),
    "table-table": ("inner", "left", "outer", "both versioned", "left versioned", "right versioned", "then"),
    "foreign key": ("inner", "left", "both versioned", "left versioned", "right versioned"),
    "sliding": ("grace 0", "grace 10", "grace 100", "final"),
    "session": ("grace 0", "grace 10", "grace 100", "final"),
    "hopping": ("grace 0", "grace 10", "grace 100", "final"),
    "suppress": (
        "time windows",
        "sliding windows",
        "session windows",
        "a table",
        "a count",
        "max_records",
        "max_bytes",
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_no_row_is_missing(what: str) -> None:
    names = [case["name"] for case in CASES if case["name"].startswith(what)]
    assert [row for row in ROWS[what] if not any(row in name for name in names)] == []
    assert any(case["output"] for case in CASES if case["name"] in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_penstock_does_what_kafka_streams_did(case: dict[str, Any]) -> None:
    played = play(case)
    for field in FIELDS:
        assert played[field] == case[field], field


@pytest.mark.parametrize("case", [case for case in CASES if not forgets(case)], ids=lambda case: case["name"])
def test_also_when_its_task_was_thrown_away_and_restored(case: dict[str, Any]) -> None:
    number = Random(case["name"]).randrange(1, len(case["input"]))

    def restart(driver: TopologyTestDriver, record: int) -> None:
        if record == number:
            assert isinstance(driver, RestartingDriver)
            driver.restart()

    played = play(case, partial(RestartingDriver, state=None), restart)
    for field in ("output", "internal", "stores"):
        assert played[field] == case[field], f"{field}; restarted before record {number}"
