"""The life of a key over HTTP: real tasks and the real read side on a broker in memory, for each kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock as ps
from penstock.api.page.record_bodies import KeyRecordsBody
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication, OneLoopTransport

TEXT, NUMBER = ps.Serdes.string(), ps.Serdes.long()
Program = Callable[[ps.KStream[str, str]], object]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Program], LocalApplication]]:
    running: list[LocalApplication] = []

    def start(program: Program) -> LocalApplication:
        builder = ps.StreamsBuilder()
        program(builder.stream("in", ps.Consumed.with_(TEXT, TEXT)))
        running.append(LocalApplication(tmp_path, builder.build(), ["in"]))
        monkeypatch.setattr("ray.get_actor", lambda *_: running[-1])
        return running[-1]

    yield start
    for each in running:
        each.close()


def get(path: str, **params: Any) -> httpx.Response:
    with httpx.Client(transport=OneLoopTransport(APPLICATION), base_url="http://localhost") as client:
        return client.get(f"/v1/applications/{APPLICATION}/stores/{path}", params=params)


def life(path: str, **params: Any) -> KeyRecordsBody:
    answer = get(path, **params)
    assert answer.status_code == 200, answer.text
    return KeyRecordsBody.model_validate(answer.json())


def values(body: KeyRecordsBody) -> list[Any]:
    return [each.value and each.value.value for each in body.records]


def play(app: LocalApplication, *records: tuple[str, str | None, int]) -> None:
    """Writes records (key, value, timestamp), each in a commit of its own."""
    for key, value, timestamp in records:
        app.write("in", key, value, timestamp)
        app.commit()


def test_a_count(run: Callable[[Program], LocalApplication]) -> None:
    app = run(lambda stream: stream.group_by_key(ps.Grouped.with_(TEXT, TEXT)).count(ps.Materialized.as_("n")))
    play(app, ("a", "x", 1), ("b", "y", 2), ("a", "z", 3))
    found = life("n/life/a")
    assert (found.store, found.topic) == ("n", f"{APPLICATION}-n-changelog")
    assert [(each.timestamp, each.value and each.value.value) for each in found.records] == [(3, 2), (1, 1)]
    inputs = life("n/inputs/a")
    assert (inputs.topic, inputs.use.split()[0], values(inputs)) == ("in", "read", ["z", "x"])
    assert life("n/life/absent").records == []


def test_a_table_that_restores_from_its_source_topic(run: Callable[[Program], LocalApplication]) -> None:
    app = run(lambda stream: stream.to_table(ps.Materialized.as_("t").with_key_serde(TEXT).with_value_serde(TEXT)))
    play(app, ("a", "x", 1), ("a", None, 2), ("a", "y", 3))
    assert values(life("t/life/a"))[0] == "y"
    assert None in values(life("t/life/a"))


def test_windows_and_sessions(run: Callable[[Program], LocalApplication]) -> None:
    def program(stream: ps.KStream[str, str]) -> None:
        grouped = stream.group_by_key(ps.Grouped.with_(TEXT, TEXT))
        grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count(ps.Materialized.as_("w"))
        gap = ps.SessionWindows.of_inactivity_gap_with_no_grace(10)
        grouped.windowed_by(gap).count(ps.Materialized.as_("s"))

    app = run(program)
    play(app, ("a", "x", 1), ("a", "y", 5), ("a", "z", 25))
    windows = [
        (each.window and each.window.start, each.value and each.value.value) for each in life("w/life/a").records
    ]
    assert windows == [(20, 1), (0, 2), (0, 1)]
    sessions = [
        (each.window and (each.window.start, each.window.end), each.value and each.value.value)
        for each in life("s/life/a").records
    ]
    assert sessions[0] == ((25, 25), 1)
    assert ((1, 1), None) in sessions, "the session grew, so the shorter one was deleted"
    assert ((1, 5), 2) in sessions


def test_versions(run: Callable[[Program], LocalApplication]) -> None:
    def program(stream: ps.KStream[str, str]) -> None:
        store = ps.Stores.persistent_versioned_key_value_store("v", 1_000_000)
        stream.to_table(ps.Materialized.as_(store).with_key_serde(TEXT).with_value_serde(TEXT))

    app = run(program)
    play(app, ("a", "late", 20), ("a", "early", 10), ("a", None, 30))
    found = life("v/life/a")
    assert [(each.timestamp, each.value and each.value.value) for each in found.records] == [
        (30, None),
        (10, "early"),
        (20, "late"),
    ]


def test_what_cannot_be_answered_is_400_with_the_reason(run: Callable[[Program], LocalApplication]) -> None:
    def program(stream: ps.KStream[str, str]) -> None:
        grouped = stream.group_by_key(ps.Grouped.with_(TEXT, TEXT))
        grouped.count(ps.Materialized.as_("silent").with_logging_disabled())
        grouped.count(ps.Materialized.as_("n").with_key_serde(TEXT))

    run(program)
    answer = get("silent/life/a")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "store 'silent' has no changelog: its logging is disabled",
    )
    answer = get("n/life/a", cursor="x")
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:penstock:problem:invalid-cursor")
    assert get("absent/life/a").status_code == 404
    assert get("n/life/a", **{"from": "no time"}).status_code == 422
