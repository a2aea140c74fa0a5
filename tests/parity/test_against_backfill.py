"""``fuzz --backfilled`` sees what a backfill does wrong, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topology import Topology
from tests.live.bunches import Case
from tests.live.shapes import every_shape
from tests.parity.fuzz import against_backfill
from tests.parity.fuzz.against_backfill import APPLICATION, BackfillReport, hold_against_tasks
from tests.pipeline.without_spark import backfill_without_spark

COUNTS: list[dict[str, Any]] = [
    {"op": "stream", "topic": "in", "id": "stream"},
    {"op": "group_by_key", "in": "stream", "id": "grouped"},
    {"op": "count", "in": "grouped", "store": "counts", "id": "counts"},
    {"op": "to_stream", "in": "counts", "id": "results"},
    {"op": "to", "in": "results", "topic": "out", "id": "out"},
]
WINDOWS: list[dict[str, Any]] = [
    *COUNTS[:2],
    {"op": "time_window", "in": "grouped", "size_ms": 10, "grace_ms": 0, "id": "cut"},
    {"op": "count", "in": "cut", "store": "counts", "id": "counts"},
]
# The sums of values are joined by another key with the table of the sums. Each must find the sum it was made of.
SUMS_THAT_MEET_THEMSELVES: list[dict[str, Any]] = [
    {"op": "stream", "topic": "in", "id": "stream"},
    {"op": "table", "topic": "other", "store": "others", "id": "other"},
    {"op": "stream_table", "in": "stream", "with": "other", "kind": "left", "id": "joined"},
    {"op": "repartition", "in": "stream", "name": "first", "id": "first"},
    {"op": "group_by", "in": "first", "fn": "value", "id": "grouped"},
    {"op": "reduce", "in": "grouped", "store": "sums", "caching": False, "fn": "minus", "id": "sums"},
    {"op": "to_stream", "in": "sums", "id": "changes"},
    {"op": "select_key", "in": "changes", "fn": "first_char", "id": "again"},
    {"op": "stream_table", "in": "again", "with": "sums", "kind": "inner", "id": "met"},
    {"op": "stream_table", "in": "again", "with": "other", "kind": "left", "id": "also"},
    {"op": "to", "in": "met", "topic": "out", "id": "out"},
]
_SEGMENT_MS = 60_000
SHAPES = every_shape()
Plant = Callable[[FakeClients, str], None]


def case_of(steps: list[dict[str, Any]], *times: int) -> Case:
    """Records of one key; the first one is read by the first backfill, the others by the second."""
    name = next(name for name in map("case-{}".format, range(100)) if Random(name).randrange(1, len(times)) == 1)
    records = [{"topic": "in", "key": "k", "value": "v", "ts": time} for time in times]
    return {"name": name, "config": {}, "topology": steps, "input": records}


def held(case: Case) -> tuple[BackfillReport, list[str]]:
    reported: list[str] = []
    return hold_against_tasks([case], 60, reported.append), reported


def test_the_backfills_of_a_program_do_what_its_tasks_do() -> None:
    report, reported = held(case_of(COUNTS, 1, 5, 3))
    assert (report.cases, report.backfills, report.refused, report.differences) == (1, 2, 0, {})
    assert reported == []


def test_what_is_made_of_a_row_finds_the_row_in_a_backfill_in_passes() -> None:
    report, reported = held(case_of(SUMS_THAT_MEET_THEMSELVES, 1, 5, 3))
    assert (report.cases, report.backfills, report.refused) == (1, 2, 0)
    assert reported == []


# The first tenth of the corpus is played with each submission, the others each night.
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(1, 10))])
@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"idle"}))
def test_every_tenth_case_of_the_corpus_is_in_backfills_what_its_tasks_make_of_it(shape: str, first: int) -> None:
    reported: list[str] = []
    report = hold_against_tasks(SHAPES[shape][first::10], 600, reported.append)
    assert report.cases > 0 or first, "some shapes have fewer than ten cases"
    assert reported == []


def _result_more(clients: FakeClients, name: str) -> None:
    clients.broker.append(f"{name}_out", FakeRecord(b"k", b"\0", 5, None))


def _result_lost(clients: FakeClients, name: str) -> None:
    logs = [clients.broker.log(TopicPartition(f"{name}_out", number)) for number in range(4)]
    next(log for log in logs if log.records).records.pop()


def _state_lost(clients: FakeClients, name: str) -> None:
    logs = [clients.broker.log(TopicPartition(f"app-{name}_counts-changelog", number)) for number in range(4)]
    next(log for log in logs if log.records).records.pop()


def _offset_behind(clients: FakeClients, name: str) -> None:
    for partition, committed in clients.broker.committed(APPLICATION).items():
        clients.admin().commit(APPLICATION, {partition: CommittedOffset(committed.offset - 1, committed.metadata)})


@pytest.mark.parametrize(
    ("plant", "where"),
    [
        (_result_more, "out[0]: of b'k'"),
        (_result_lost, "out[0]: of b'k'"),
        (_state_lost, "counts-changelog[0]: last of b'k'"),
        (_offset_behind, "offset of"),
    ],
)
def test_mistakes_are_reported(plant: Plant, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(COUNTS, 1, 5, 3)
    done = []

    def with_a_fault(topology: Topology, config: StreamsConfig, clients: FakeClients, at_once: int) -> None:
        backfill_without_spark(topology, config, clients, at_once)
        done.append(clients)
        if len(done) == 2:
            plant(clients, case["name"])

    monkeypatch.setattr(against_backfill, "backfill_without_spark", with_a_fault)
    report, (line,) = held(case)
    assert list(report.differences) == [case["name"]]
    assert where in line


def test_windows_that_have_expired_since_the_backfill_before_do_not_count() -> None:
    # The second backfill changes the first window, and does not hand it over: the row of the first one stays.
    last = _SEGMENT_MS - 5
    assert held(case_of(WINDOWS, last, last + 1, _SEGMENT_MS + 9))[1] == []
    assert held(case_of(WINDOWS, last, last + 1, _SEGMENT_MS + 10))[1] == []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(against_backfill, "_first_kept", lambda store: 0)
        assert held(case_of(WINDOWS, last, last + 1, _SEGMENT_MS + 9))[1] == []
        (line,) = held(case_of(WINDOWS, last, last + 1, _SEGMENT_MS + 10))[1]
    assert "counts-changelog" in line
