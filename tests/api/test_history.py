"""The last hour of an application over HTTP."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace

import httpx
import pytest

from penstock.api.page.history_bodies import HistoryBody
from penstock.cluster.application_history import (
    BUSY_UNKNOWN,
    NO_ACTOR,
    TASK_STATES,
    ApplicationHistory,
    EventKind,
    EventLevel,
    Flow,
    HistoryEvent,
    Sample,
)
from penstock.cluster.findings import Finding, Level
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from penstock.common.windows import LARGEST_TIMESTAMP
from tests.api.fake import FakeReadSide

APP = "/v1/applications/word-count"
TASKS = TaskId(0, 0), TaskId(1, 0)
NAN = math.nan
FLOW = Flow(
    ("enrich", "new"), ("lines",), array("f", [7.5, NAN]), array("B", [100, BUSY_UNKNOWN]), array("f", [NAN]),
    array("f", [3.0]),
)  # fmt: skip
FINDING = Finding(Level.WARNING, "1 task is behind", "behind", "tasks", "0_0", 4_000)


def sample(at_ms: int, rates: tuple[float, float] = (10.0, NAN), actors: tuple[str, ...] = ("stream/2",)) -> Sample:
    totals = array("d", [10.0, 5.0, NAN, 0.5, 1.0, 0.0])
    columns = array("f", rates), array("f", [0.5, NAN]), array("B", [100, BUSY_UNKNOWN]), array("H", [0, NO_ACTOR])
    states = array("B", [TASK_STATES.index("running"), TASK_STATES.index("waiting")])
    return Sample(at_ms, totals, TASKS, actors, *columns, states, FLOW, FINDING)


EVENTS = (
    HistoryEvent(5_100, EventKind.MOVE, EventLevel.INFO, "task 0_0 moves", "stream/2", TASKS[0], until_ms=5_100),
    HistoryEvent(
        6_000,
        EventKind.LOG,
        EventLevel.WARNING,
        "commit failed, retrying: x",
        "stream/2",
        None,
        "commit failed, retrying",
        9_000,
        4,
    ),
    HistoryEvent(7_000, EventKind.LOG, EventLevel.ERROR, "a user's own line", "stream/2", None, "a user's own line"),
)
REMEMBERED = ApplicationHistory(
    1_000, 5_000, (sample(5_003), sample(20_000, (NAN, 30.0), ("stream/1", "stream/2"))), EVENTS
)


@pytest.fixture
def remembering(read_side: FakeReadSide) -> FakeReadSide:
    read_side.remembered = REMEMBERED
    return read_side


def test_series_have_one_value_each_step_and_gaps_are_null(client: httpx.Client, remembering: FakeReadSide) -> None:
    answer = client.get(f"{APP}/history")
    assert "NaN" not in answer.text
    body = HistoryBody.model_validate(answer.json())
    assert (body.step_ms, body.from_ms, body.began_ms) == (5_000, 5_000, 1_000)
    assert body.samples.application.records_per_s == [10.0, None, None, 10.0]
    assert body.samples.application.behind_s == [None] * 4
    assert body.samples.actors == ["stream/1", "stream/2"]
    first, second = body.samples.tasks["0_0"], body.samples.tasks["1_0"]
    assert first.records_per_s == [10.0, None, None, None]
    assert second.records_per_s == [None, None, None, 30.0]
    assert first.busy == [0.5, None, None, 0.5]
    assert first.actor == [1, None, None, 0]
    assert second.actor == [None] * 4
    assert body.samples.states[first.state[0] or 0] == "running"
    assert [first.state[step] is None for step in range(4)] == [False, True, True, False]
    enrich, lines = body.samples.operators["enrich"], body.samples.topics["lines"]
    assert (enrich.records_per_s, enrich.busy) == ([7.5, None, None, 7.5], [0.5, None, None, 0.5])
    assert body.samples.operators["new"].busy == [None] * 4
    assert (lines.records_in_per_s, lines.records_out_per_s) == ([None] * 4, [3.0, None, None, 3.0])
    shown = [each and (each.level, each.sentence, each.since_ms) for each in body.samples.findings]
    assert shown == [("warning", "1 task is behind", 4_000), None, None, ("warning", "1 task is behind", 4_000)]
    assert remembering.asked_times == (0, LARGEST_TIMESTAMP)


def test_a_line_of_the_log_has_the_section_that_explains_it(client: httpx.Client, remembering: FakeReadSide) -> None:
    move, line, own = HistoryBody.model_validate(client.get(f"{APP}/history").json()).events
    assert (move.kind, move.task_id, move.page) == ("move", "0_0", None)
    assert line.page == "messages/kafka.md#commit-failed-retrying"
    assert (line.level, line.times, line.until_ms) == ("warning", 4, 9_000)
    assert own.page is None
    assert remembering


@pytest.mark.parametrize(("asked", "given"), [("1_0", ["1_0"]), ("", []), ("0_0,1_0", ["0_0", "1_0"]), ("7_7", [])])
def test_only_the_tasks_that_are_wanted_have_series(
    client: httpx.Client, remembering: FakeReadSide, asked: str, given: list[str]
) -> None:
    body = client.get(f"{APP}/history", params={"tasks": asked, "from_ms": 4000, "to_ms": 90_000}).json()
    assert list(body["samples"]["tasks"]) == given
    assert remembering.asked_times == (4000, 90_000)
    assert remembering.asked_parts == (asked != "", True)


def test_details_are_left_out_if_they_are_not_wanted(client: httpx.Client, remembering: FakeReadSide) -> None:
    samples = client.get(f"{APP}/history", params={"details": "false", "tasks": ""}).json()["samples"]
    assert (samples["tasks"], samples["operators"], samples["topics"], samples["findings"]) == ({}, {}, {}, [])
    assert samples["application"]["records_per_s"] == [10.0, None, None, 10.0]
    assert remembering.asked_parts == (False, False), "the coordinator sends nothing else"


def test_a_history_without_samples_is_empty(client: httpx.Client) -> None:
    body = HistoryBody.model_validate(client.get(f"{APP}/history").json())
    assert body.from_ms is None
    assert body.samples.tasks == {}
    assert body.samples.application.lag == []


def test_hostile_texts_are_plain_json(client: httpx.Client, read_side: FakeReadSide) -> None:
    hostile = '<script>alert("1")</script>\u202e\x00\u2028'
    read_side.remembered = replace(REMEMBERED, events=(replace(EVENTS[0], sentence=hostile),))
    text = client.get(f"{APP}/history").text
    assert json.loads(text)["events"][0]["sentence"] == hostile


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"from_ms": "x"}, "query/from_ms"),
        ({"to_ms": "-1"}, "query/to_ms"),
        ({"tasks": "a"}, "query/tasks"),
        ({"since": "1"}, "query/since"),
    ],
)
def test_an_invalid_request_is_refused(client: httpx.Client, params: dict[str, str], where: str) -> None:
    answer = client.get(f"{APP}/history", params=params)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["where"] == where


def test_an_application_that_does_not_run_and_another_one_have_their_problems(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    read_side.failure = ApplicationStateError("it does not run")
    assert client.get(f"{APP}/history").status_code == 503
    assert client.get("/v1/applications/other/history").status_code == 404


def test_an_hour_of_two_hundred_tasks_has_720_values_in_each_series(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    tasks = tuple(TaskId(0, number) for number in range(200))
    columns = array("f", [1.0] * 200), array("f", [NAN] * 200), array("B", [3] * 200), array("H", [0] * 200)
    more = array("B", [4] * 200), FLOW, FINDING
    samples = tuple(
        Sample(slot * 5000, array("d", [1.0] * 6), tasks, ("stream/1",), *columns, *more) for slot in range(1, 721)
    )
    read_side.remembered = ApplicationHistory(0, 5000, samples)
    body = client.get(f"{APP}/history").json()
    assert {len(series) for task in body["samples"]["tasks"].values() for series in task.values()} == {720}


def test_an_hour_is_compressed_for_a_client_that_accepts_it(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.remembered = ApplicationHistory(0, 5000, tuple(sample(slot * 5000) for slot in range(1, 721)))
    compressed = client.get(f"{APP}/history")
    plain = client.get(f"{APP}/history", headers={"Accept-Encoding": "identity"})
    assert (compressed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert "Accept-Encoding" in compressed.headers["vary"]
    assert compressed.json() == plain.json()
    assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 10
