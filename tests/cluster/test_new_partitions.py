"""A source topic gets partitions while the application runs, on a real Ray and a real Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from penstock.cluster.client.control import end_actors
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.status import ApplicationState
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed
from tests.cluster.conftest import STRING, WordCount
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually

SOON = {"consumer.topic.metadata.refresh.interval.ms": 500}


def grow(broker: str, topic: str, partitions: int) -> None:
    client = AdminClient({"bootstrap.servers": broker})
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)


@pytest.fixture
def application_id(topic_name: Callable[[str], str]) -> Iterator[str]:
    name = topic_name("grows")
    yield name
    end_actors(name, find_coordinator(name))


@pytest.mark.long
def test_the_tasks_of_new_partitions_start_while_the_others_run_on(
    broker: str, application_id: str, tmp_path: Path, ray_cluster: None
) -> None:
    source, clients = f"{application_id}-in", ConfluentClients(broker, application_id)
    clients.admin().create_topics([NewTopic(source, 2)])
    builder = StreamsBuilder()
    builder.table(source, Consumed.with_(STRING, STRING), Materialized.as_("rows"))
    config = {
        "application.id": application_id, "bootstrap.servers": broker, "state.dir": tmp_path, "commit.interval.ms": 200,
        # The source topic is the table's changelog, so that no internal topic has to grow.
        "topology.optimization": "all",
        **SOON,
    }  # fmt: skip
    app = KafkaStreams(builder.build(config), config)
    app.start()
    before = {actor.pid for actor in until_settled(app).actors}
    grow(broker, source, 3)
    key = next(word for word in map(str, range(100)) if partition_for(word.encode(), 3) == 2)
    producer = clients.producer()
    producer.send(source, key.encode(), b"here", 1_000, partition=2)
    assert producer.flush(60)
    producer.close()
    committed = {TopicPartition(source, 2)}
    eventually(lambda: committed <= clients.admin().committed(application_id).keys(), "the new partition is read")
    status = until_settled(app)
    assert set(status.placement) == {TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)}
    assert before <= {actor.pid for actor in status.actors}, "nothing was restarted"
    assert app.store("rows").get(key) == "here"
    assert app.close()


@pytest.mark.long
def test_a_repartition_topic_that_would_have_to_grow_ends_the_application_with_what_to_do(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    it.send(["a b", "b c"])
    app = it.app(**{key.replace(".", "_"): value for key, value in SOON.items()})
    app.start()
    app.wait_until_running(PATIENCE_S)
    eventually(it.complete, "all counts written")
    grow(it.broker, it.lines, 3)
    eventually(lambda: app.state() is ApplicationState.ERROR, "ERROR")
    error = app.status().error or ""
    assert f"'{it.application_id}-counts-repartition' has 2 partitions, but the topology needs 3" in error
    assert "application.id" in error
    assert it.committed() == 2, "what was processed is committed"
