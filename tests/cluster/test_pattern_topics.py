"""A stream by pattern, and topics that come and go while the application runs, on a real Ray and a real Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.cluster.client.control import end_actors
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole
from tests.cluster.conftest import STRING
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually, once_ready


@pytest.fixture
def application_id(topic_name: Callable[[str], str]) -> Iterator[str]:
    name = topic_name("pattern")
    yield name
    end_actors(name, find_coordinator(name))


@pytest.mark.long
def test_topics_that_match_are_read_those_that_appear_later_too_and_none_must_stay(
    broker: str, application_id: str, tmp_path: Path, ray_cluster: None
) -> None:
    first, later = f"{application_id}.a", f"{application_id}.b"
    clients = ConfluentClients(broker, application_id)
    clients.admin().create_topics([NewTopic(first, 2), NewTopic(f"not-{first}", 5)])
    builder = ps.StreamsBuilder()
    (
        builder.stream(re.compile(rf"{re.escape(application_id)}\..*"), ps.Consumed.with_(STRING, STRING))
        .group_by_key(ps.Grouped.with_(STRING, STRING))
        .count(ps.Materialized.as_("counts"))
    )
    config = {
        "application.id": application_id, "bootstrap.servers": broker, "state.dir": tmp_path, "commit.interval.ms": 200,
        "consumer.topic.metadata.refresh.interval.ms": 500,
    }  # fmt: skip
    producer = clients.producer()

    def send(topic: str, key: bytes) -> None:
        producer.send(topic, key, b"v", 1_000, partition=0)
        assert producer.flush(60)

    def counted(key: str) -> bool:
        return once_ready(lambda: app.store("counts", wait_s=0).get(key)) is not None

    app = KafkaStreams(builder.build(config), config)
    app.start()
    until_settled(app)
    send(first, b"k")
    eventually(lambda: app.store("counts").get("k") == 1, "the first topic is read")
    clients.admin().create_topics([NewTopic(later, 1)])
    send(later, b"k")
    committed = {TopicPartition(later, 0)}
    eventually(lambda: committed <= clients.admin().committed(application_id).keys(), "the new topic is read")
    assert set(until_settled(app).placement) == {TaskId(0, 0), TaskId(0, 1)}
    assert app.store("counts").get("k") == 2, "by the task and the store that the key had before"
    # The topic with most partitions goes, and with it a task; the other task continues with its state.
    clients.admin().delete_topics([first])
    send(later, b"goes on")
    eventually(lambda: set(app.status().placement) == {TaskId(0, 0)}, "what read only the topic that is gone is gone")
    until_settled(app)
    eventually(lambda: counted("goes on"), "the others are read on")
    # At least once: what was not committed when the topic went may be counted again.
    kept = app.store("counts").get("k")
    assert kept is not None
    assert kept >= 2, "with the state there was"
    assert TopicPartition(first, 0) not in {tp for task in app.status().tasks for tp in task.lags}
    clients.admin().create_topics([NewTopic(first, 2)])
    send(first, b"new")
    eventually(lambda: len(app.status().placement) == 2, "it is there again")
    until_settled(app)
    eventually(lambda: counted("new"), "and read from its beginning")
    producer.close()
    assert app.close()


@pytest.mark.long
def test_exactly_once_a_topic_that_goes_takes_nothing_of_the_others_along(
    broker: str, application_id: str, tmp_path: Path, ray_cluster: None
) -> None:
    """The transaction under way may hold offsets of the topic that is gone."""
    going, staying, counts = f"{application_id}.a", f"{application_id}.b", f"counts-{application_id}"
    clients = ConfluentClients(broker, application_id, {"isolation.level": "read_committed"})
    clients.admin().create_topics([NewTopic(going, 2), NewTopic(staying, 2), NewTopic(counts, 1)])
    config = {
        "application.id": application_id, "bootstrap.servers": broker, "state.dir": tmp_path, "commit.interval.ms": 200,
        "processing.guarantee": "exactly_once_v2", "consumer.topic.metadata.refresh.interval.ms": 500,
    }  # fmt: skip
    producer = clients.producer()
    sent = 0

    def send(topic: str) -> None:
        for partition in range(2):
            producer.send(topic, f"{topic[-1]}{partition}".encode(), b"v", 1_000, partition=partition)
        assert producer.flush(60)

    app = KafkaStreams(counting(application_id, counts), config)
    app.start()
    app.wait_until_running(PATIENCE_S)
    while sent < 20:
        sent += 1
        send(going)
        send(staying)
    clients.admin().delete_topics([going])

    def is_gone() -> bool:
        nonlocal sent
        send(staying)
        sent += 1
        assert app.status().error is None
        return not {tp for task in app.status().tasks for tp in task.lags if tp.topic == going}

    eventually(is_gone, "nobody reads what is gone, while the other is written all the time")
    app.wait_until_running(PATIENCE_S)
    send(staying)
    sent += 1
    whole = {TopicPartition(staying, partition): sent for partition in range(2)}

    def all_is_committed() -> bool:
        committed = {tp: at.offset for tp, at in clients.admin().committed(application_id).items()}
        return whole.items() <= committed.items()

    eventually(all_is_committed, "all of the other is committed")
    assert app.status().error is None
    producer.close()
    assert app.close()
    seen = read_counts(clients, TopicPartition(counts, 0))
    assert seen["b0"] == seen["b1"] == list(range(1, sent + 1)), "each once, in order"
    for key in ("a0", "a1"):
        assert seen.get(key, []) == list(range(1, len(seen.get(key, [])) + 1))


def counting(application_id: str, to: str) -> ps.Topology:
    """Counts what topics that begin with ``application_id`` have, by key; each count is written."""
    builder = ps.StreamsBuilder()
    (
        builder.stream(re.compile(rf"{re.escape(application_id)}\..*"), ps.Consumed.with_(STRING, STRING))
        .group_by_key(ps.Grouped.with_(STRING, STRING))
        .count(ps.Materialized.as_("counts").with_caching_disabled())
        .to_stream()
        .to(to, ps.Produced.with_(STRING, ps.Serdes.long()))
    )
    return builder.build()


def read_counts(clients: ConfluentClients, tp: TopicPartition) -> dict[str, list[int]]:
    """All that a reader of committed records sees, by key."""
    seen: dict[str, list[int]] = {}
    for batch in whole(clients, [tp]):
        for key, value in zip(batch.keys, batch.values, strict=True):
            seen.setdefault((key or b"").decode(), []).append(int.from_bytes(value or b"", "big"))
    return seen
