"""Pause and resume, and actors that fail and are replaced, on a real Ray and a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import ray

import penstock as ps
from penstock.cli import applications as commands
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.status import ApplicationState
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.cluster.conftest import STRING, WordCount
from tests.cluster.settled import until_settled
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually, once_ready

LINES = ["a b", "b c", "c d", "d a"] * 25


@pytest.mark.long
def test_a_paused_application_stays_so_over_the_death_of_an_actor_and_of_the_coordinator(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app()
    app.pause()
    app.start()
    until_settled(app)
    assert app.is_paused()
    victim, coordinator = app.status().actors[0], find_coordinator(it.application_id)
    assert coordinator is not None
    pid: int = ray.get(coordinator.process.remote()).pid
    signal_ray_process(pid)
    signal_ray_process(victim.pid)
    # A coordinator that has just come back may still list it, or nobody.
    eventually(lambda: victim.actor_id not in {each.actor_id for each in until_settled(app).actors}, "it is found dead")
    address = app.status().http_address
    assert address is not None
    known = f"{address}/v1/applications/{it.application_id}"
    eventually(
        lambda: bool(httpx.get(known, timeout=PATIENCE_S).json()["lag"] == len(LINES)), "all tasks have seen what waits"
    )
    assert app.is_paused()
    assert it.written() == {}
    assert once_ready(lambda: app.store("counts").get("a")) is None, "queries are answered"
    assert httpx.post(f"{known}/resume", timeout=PATIENCE_S).json()["paused"] is False
    eventually(it.complete, "all counts written")
    commands.pause(it.application_id)
    assert app.is_paused()
    eventually(lambda: it.committed() == len(LINES), "what was done before is committed")
    it.send(LINES)
    commands.resume(it.application_id)
    eventually(it.complete, "and the rest")
    assert app.close()


@pytest.fixture
def application_id(topic_name: Callable[[str], str]) -> Iterator[str]:
    name = topic_name("fails")
    yield name
    end_actors(name, find_coordinator(name))


@pytest.mark.long
def test_a_program_that_fails_is_tried_again_from_its_last_commit_until_the_handler_gives_up(
    broker: str, application_id: str, tmp_path: Path, ray_cluster: None
) -> None:
    source, clients = f"{application_id}-in", ConfluentClients(broker, application_id)
    clients.admin().create_topics([NewTopic(source, 1)])
    mended, heard = tmp_path / "mended", tmp_path / "heard"

    def check(value: str) -> str:
        if value == "hopeless" or (value == "bad" and not mended.exists()):
            raise ValueError(value)
        return value

    def handler(exception: BaseException) -> ps.UncaughtExceptionResponse:
        with heard.open("a") as file:
            file.write(f"{type(exception).__name__}\n")
        hopeless = "hopeless" in repr(exception.__cause__)
        return (
            ps.UncaughtExceptionResponse.SHUTDOWN_APPLICATION
            if hopeless
            else ps.UncaughtExceptionResponse.REPLACE_ACTOR
        )

    builder = ps.StreamsBuilder()
    values = builder.stream(source, ps.Consumed.with_(STRING, STRING)).map_values(check)
    values.group_by_key(ps.Grouped.with_(STRING, STRING)).count(ps.Materialized.as_("counts"))
    app = ps.KafkaStreams(
        builder.build(),
        {
            "application.id": application_id, "bootstrap.servers": broker, "state.dir": tmp_path,
            "commit.interval.ms": 200,
        },
    )  # fmt: skip
    app.set_uncaught_exception_handler(handler)
    app.start(serve=False)
    app.wait_until_running(PATIENCE_S)
    producer = clients.producer()
    for value in ("good", "bad", "good"):
        producer.send(source, b"k", value.encode(), 1_000, partition=0)
    assert producer.flush(60)
    eventually(lambda: heard.exists() and len(heard.read_text().split()) >= 2, "it fails, and again in another actor")
    assert app.state() is not ApplicationState.ERROR
    eventually(lambda: "bad" in (app.status().waiting or ""), "it says what it waits for, and why")
    mended.touch()
    app.wait_until_running(PATIENCE_S)
    eventually(lambda: app.store("counts").get("k") == 3, "the record that failed, and what stands behind it")
    producer.send(source, b"k", b"hopeless", 1_000, partition=0)
    assert producer.flush(60)
    producer.close()
    eventually(lambda: app.state() is ApplicationState.ERROR, "the handler has given up")
    assert "hopeless" in (app.status().error or "")
    assert set(heard.read_text().split()) == {"ProcessingError"}
    app.close()
