"""Two examples on a real Kafka and a real Ray: a service over HTTP from its own state, and exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import penstock as ps
from examples import transfers, word_count, word_service
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.submission


@pytest.fixture
def clients(broker: str) -> ConfluentClients:
    return ConfluentClients(broker, "examples")


def on(broker: str, example: ps.KafkaStreams, state_dir: Path, **more: Any) -> ps.KafkaStreams:
    """Returns the application of an example on this broker."""
    return ps.KafkaStreams(
        example.topology,
        {
            "application.id": f"live-{example.application_id}",
            "bootstrap.servers": broker,
            "state.dir": state_dir,
            "commit.interval.ms": 200,
            **more,
        },
    )


@pytest.fixture
def service(
    broker: str, clients: ConfluentClients, ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    clients.admin().create_topics([NewTopic("lines", 2), NewTopic("word-counts", 2)])
    monkeypatch.setattr(word_service, "app", on(broker, word_count.app, tmp_path, **{"application.server": ""}))
    with TestClient(word_service.service) as client:
        yield client
    # Other tests make topics of these names on the same broker.
    admin = clients.admin()
    admin.delete_topics(["lines", "word-counts"])
    eventually(lambda: {"lines", "word-counts"}.isdisjoint(admin.topics()), "the topics are deleted")


def test_the_service_answers_from_the_state_of_its_application(service: TestClient, clients: ConfluentClients) -> None:
    producer = clients.producer()
    for number in range(10):
        producer.send("lines", None, b"import os, sys", 1000 + number)
    assert producer.flush(PATIENCE_S)
    producer.close()
    eventually(lambda: service.get("/words/import").json() == {"word": "import", "count": 10}, "all lines counted")
    # 503 while the task that would have it moves to an actor that has just come.
    eventually(lambda: service.get("/words/nowhere").json() == {"word": "nowhere", "count": 0}, "a word without lines")


def test_a_task_that_moves_is_answered_with_503(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moving:
        def store(self, name: str) -> Moving:
            return self

        def get(self, key: str) -> int:
            raise ps.TaskNotReadyError("task 1_0 restores")

    monkeypatch.setattr(word_service, "app", Moving())
    answer = TestClient(word_service.service).get("/words/import")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"


def test_the_sum_of_all_balances_stays_the_same(
    broker: str, clients: ConfluentClients, ray_cluster: None, tmp_path: Path
) -> None:
    clients.admin().create_topics([NewTopic("transfers", 2), NewTopic("balances", 2)])
    more = {"application.server": "127.0.0.1:0", "processing.guarantee": "exactly_once_v2"}
    names, expected = ["ada", "bob", "eve"], Counter[str]()
    producer, serde = clients.producer(), ps.Serdes.json(transfers.Transfer)
    for number in range(300):
        order = transfers.Transfer(names[number % 3], names[(number + 1 + number % 2) % 3], number)
        expected.subtract({order.source: order.cents})
        expected.update({order.target: order.cents})
        producer.send("transfers", str(number).encode(), serde.serialize(order), 1000 + number)
    assert producer.flush(PATIENCE_S)
    producer.close()

    def balances() -> dict[str, int]:
        found = {}
        for batch in whole(clients, [TopicPartition("balances", number) for number in range(2)]):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert key is not None
                assert value is not None
                found[key.decode()] = ps.Serdes.long().deserialize(value)
        return found

    with on(broker, transfers.app, tmp_path, **more) as app:
        app.wait_until_running(PATIENCE_S)
        eventually(lambda: balances() == dict(expected), "all transfers booked")
    assert sum(balances().values()) == 0
