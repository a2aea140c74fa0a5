"""The records of an application's topics over HTTP: real tasks and the real read side on a broker in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock as ps
from penstock.api.page.letter_bodies import LettersBody
from penstock.api.page.record_bodies import PeekBody
from penstock.cluster.queries.one_at_a_time import OneAtATime
from penstock.cluster.record_side import ReadsBusyError
from penstock.cluster.topic_reading.sources import reading_clients
from penstock.common.config import StreamsConfig
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication, OneLoopTransport
from tests.waiting import PATIENCE_S

TEXT, NUMBER = ps.Serdes.string(), ps.Serdes.long()
TOPICS = f"/v1/applications/{APPLICATION}/topics"


def counting() -> ps.Topology:
    builder = ps.StreamsBuilder()
    words = builder.stream("in", ps.Consumed.with_(TEXT, TEXT))
    grouped = words.group_by(lambda _, value: value, ps.Grouped.with_(TEXT, TEXT).with_name("words"))
    counts = grouped.count(ps.Materialized.as_("counts"))
    counts.to_stream().to("out", ps.Produced.with_(TEXT, NUMBER))
    return builder.build()


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalApplication]:
    app = LocalApplication(tmp_path, counting(), ["in", "out", f"{APPLICATION}-words-repartition", "other"])
    monkeypatch.setattr("ray.get_actor", lambda *_: app)
    yield app
    app.close()


@pytest.fixture
def client(application: LocalApplication) -> Iterator[httpx.Client]:
    transport = OneLoopTransport(APPLICATION)
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        yield client


def peek(client: httpx.Client, topic: str) -> PeekBody:
    answer = client.get(f"{TOPICS}/{topic}/peek")
    assert answer.status_code == 200, answer.text
    return PeekBody.model_validate(answer.json())


def newest(client: httpx.Client, topic: str) -> tuple[Any, Any]:
    """Returns the key and the value of a topic's newest record."""
    record = peek(client, topic).records[0]
    return record.key and record.key.value, record.value and record.value.value


def test_each_topic_of_the_application_is_decoded_by_its_serdes(
    application: LocalApplication, client: httpx.Client
) -> None:
    for number, word in enumerate(["a", "b", "a"]):
        application.write("in", f"k{number}", word, number)
    application.commit()
    application.settle()
    application.commit()
    uses = {each["name"]: each["use"] for each in client.get(TOPICS).json()["topics"]}
    repartition, changelog = f"{APPLICATION}-words-repartition", f"{APPLICATION}-counts-changelog"
    assert set(uses) == {"in", "out", repartition, changelog}
    assert uses[changelog] == "changelog of store counts (timestamped key-value)"
    assert newest(client, "in") == ("k2", "a")
    assert newest(client, repartition) == ("a", "a")
    assert newest(client, changelog) == newest(client, "out") == ("a", 2)
    assert [each.use for each in (peek(client, "in"), peek(client, "out"))] == [uses["in"], uses["out"]]


def test_other_topics_of_the_broker_are_not_shown(client: httpx.Client) -> None:
    answer = client.get(f"{TOPICS}/other/peek")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:problem:unknown-topic")
    assert "in" in answer.json()["known_topics"]


def test_while_no_broker_answers_the_answer_is_503(application: LocalApplication, client: httpx.Client) -> None:
    application.rig.broker.down = True
    answer = client.get(f"{TOPICS}/in/peek")
    application.rig.broker.down = False
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:penstock:problem:no-broker")
    assert peek(client, "in").records == []


def test_dead_letters_are_shown_and_replayed_and_a_record_that_fails_again_is_a_new_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(TEXT, TEXT)).map_values(int).to("out", ps.Produced.with_(TEXT, NUMBER))
    settings: dict[str, Any] = {
        "processing_exception_handler": ps.LogAndContinue(),
        "errors_dead_letter_queue_topic_name": "letters",
    }
    app = LocalApplication(tmp_path, builder.build(), ["in", "out", "letters"], **settings)
    monkeypatch.setattr("ray.get_actor", lambda *_: app)
    path = f"/v1/applications/{APPLICATION}/dead-letters"
    with httpx.Client(transport=OneLoopTransport(APPLICATION), base_url="http://localhost") as client:
        for number, value in enumerate(["1", "x", "3"]):
            app.write("in", "k", value, number)
        app.commit()
        (letter,) = LettersBody.model_validate(client.get(path).json()).letters
        assert letter.error is not None
        assert letter.error.exception == "ValueError"
        assert (letter.origin.topic, letter.value and letter.value.value, letter.replays) == ("in", "x", [])
        request = {"places": [f"{letter.partition}@{letter.offset}"]}
        assert client.post(f"{path}/replay", json=request).json()["written"] == 1
        assert client.post(f"{path}/replay", json=request).json()["written"] == 0
        app.settle()
        app.commit()
        again, first = LettersBody.model_validate(client.get(path).json()).letters
        assert {again.replay_count, first.replay_count} == {0, 1}
        assert {len(again.replays), len(first.replays)} == {0, 1}
    app.close()


def test_one_read_runs_at_a_time_and_one_that_hangs_keeps_its_place_until_it_ends() -> None:
    may_end, begun = threading.Event(), threading.Event()

    def hang() -> str:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        return "late"

    async def play() -> None:
        one = OneAtATime(wait_s=0.01, longest_s=0.01)
        with pytest.raises(ReadsBusyError, match=r"a read of a topic has not ended within 0\.01 s"):
            await one.run(hang)
        assert await asyncio.to_thread(begun.wait, PATIENCE_S), "its thread may begin late, but it does"
        with pytest.raises(ReadsBusyError, match="a read of a topic is under way"):
            await one.run(lambda: "refused")
        may_end.set()
        patient = OneAtATime()
        patient._running = one._running
        assert await patient.run(lambda: "next") == "next"

    asyncio.run(play())


def test_a_read_whose_client_has_gone_is_not_begun_twice_and_its_error_is_not_lost_to_the_next() -> None:
    may_end = threading.Event()

    def fail() -> str:
        assert may_end.wait(PATIENCE_S)
        raise ValueError("nobody hears this")

    async def play() -> None:
        one = OneAtATime()
        gone = asyncio.create_task(one.run(fail))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        waits = asyncio.create_task(one.run(lambda: "next"))
        await asyncio.sleep(0)
        assert not waits.done()
        may_end.set()
        assert await waits == "next"

    asyncio.run(play())


def test_the_consumer_is_in_no_group_of_the_application_and_fetches_little_ahead() -> None:
    entries = {"application.id": "app", "processing.guarantee": "exactly_once_v2", "consumer.client.rack": "r"}
    clients = reading_clients(StreamsConfig.of(entries))
    assert clients.group == "penstock-page"
    assert clients.reads_committed
    assert clients.consumer_overrides["client.rack"] == "r"
    assert clients.consumer_overrides["queued.max.messages.kbytes"] == 2048
