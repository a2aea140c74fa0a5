"""The answers of the store of ``deduplicate`` to queries from outside, without Ray and Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.cli import query as command
from penstock.cluster.queries.queries import StateQueries
from penstock.common.errors import UnknownQueryError
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication

TEXT = ps.Serdes.string()
MINUTE = 60_000
Started = Callable[[ps.Topology], LocalApplication]


def topology(by_id: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(TEXT, TEXT))
    how: ps.Deduplicated[str, str, str] = ps.Deduplicated.as_("seen")
    if by_id:
        stream.deduplicate(MINUTE, lambda value: value, how.with_id_serde(TEXT))
    else:
        stream.deduplicate(MINUTE, deduplicated=how)
    return builder.build()


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    running: list[LocalApplication] = []

    def start(topology: ps.Topology) -> LocalApplication:
        running.append(LocalApplication(tmp_path, topology, ("in",)))
        monkeypatch.setattr("ray.get_actor", lambda *_: running[0])
        return running[0]

    yield start
    for each in running:
        each.close()


def test_rows_are_windows_in_which_a_key_was_seen_first(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    application = started(topology(by_id=False))
    for key, at in (("ada", 5), ("ada", 9), ("ada", MINUTE + 6)):
        application.write("in", key, "x", at)
    application.settle()
    assert asyncio.run(command.answer(StateQueries(APPLICATION), "seen", command.Asked("ada"), as_json=True))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["window"]["start"], row["value"]) for row in rows] == [
        ("ada", 0, {"timestamp": 5, "offset": 0, "topic": "in"}),
        ("ada", MINUTE, {"timestamp": MINUTE + 6, "offset": 2, "topic": "in"}),
    ]


def test_a_store_by_key_and_id_refuses_queries(started: Started) -> None:
    application = started(topology(by_id=True))
    application.write("in", "ada", "x", 5)
    application.settle()
    with pytest.raises(UnknownQueryError, match="'seen' is a deduplication store"):
        asyncio.run(command.answer(StateQueries(APPLICATION), "seen", command.Asked("ada")))
    with pytest.raises(UnknownQueryError, match="does not answer WindowRangeQuery"):
        asyncio.run(command.answer(StateQueries(APPLICATION), "seen", command.Asked()))
