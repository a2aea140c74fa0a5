"""A join by foreign key, backfilled in two parts by a real Spark from a real Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.pipeline.backfill.backfill import BackfillReport, backfill
from penstock.topology.physical.topology import internal_topic
from tests.live.bunches import PARTITIONS
from tests.live.comparison import Topics, differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.pipeline.rows import Row
from tests.pipeline.test_cycle_host import UNCACHED, history
from tests.pipeline.topologies import foreign_key_join


class Joined:
    """An application that joins ``left`` and ``right``, and counts the results."""

    def __init__(self, broker: str, topic_name: Callable[[str], str], state: Path) -> None:
        self.left, self.right, self.out = (topic_name(each) for each in ("left", "right", "out"))
        self.topology = foreign_key_join(self.left, self.right, self.out, counted=True)
        self.settings = {**UNCACHED, "application.id": topic_name("app")}
        self.config = StreamsConfig.of({**self.settings, "bootstrap.servers": broker, "state.dir": state})
        self.clients = ConfluentClients.of(self.config)
        self.admin = self.clients.admin()
        self.admin.create_topics(NewTopic(topic, PARTITIONS) for topic in (self.left, self.right, self.out))
        self.driver = PartitionedDriver(self.topology, self.settings, PARTITIONS)

    def internal(self, kind: str) -> set[str]:
        """The repartition topics of the join, or the changelogs, that the driver has written."""
        begin = internal_topic(self.config.application_id, "")
        return {topic for topic in self.driver.topics if topic.startswith(begin) and topic.endswith(kind)}

    def send(self, rows: Iterable[Row]) -> None:
        """Sends the rows to the input topics, and to the driver."""
        producer = self.clients.producer()
        for task, _, topic, _, _, key, value, timestamp, _ in rows:
            producer.send(topic, key, value, timestamp, None, task)
            self.driver.pipe(topic, task, Written(key, value, timestamp, NO_HEADERS))
        assert producer.flush(60)
        producer.close()

    def backfill(self) -> BackfillReport:
        return backfill(self.topology, self.config, "local[2]")

    def written(self, topics: set[str]) -> Topics:
        """Returns the records that these topics hold in Kafka, by partition."""
        partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        found: dict[str, list[list[Written]]] = {topic: [[] for _ in range(PARTITIONS)] for topic in topics}
        consumer = self.clients.consumer()
        ends = {partition: end for partition, end in consumer.fetch_end_offsets(partitions).items() if end}
        consumer.assign(dict.fromkeys(ends, BEGINNING))
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for batch in consumer.poll(1000, 0.1):
                found[batch.partition.topic][batch.partition.partition] += [
                    Written(*row, NO_HEADERS) for row in zip(batch.keys, batch.values, batch.timestamps, strict=True)
                ]
        consumer.close()
        return found


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_every_result_is_there_and_the_second_part_continues_from_the_subscriptions_of_the_first(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    it, rng = Joined(broker, topic_name, tmp_path), random.Random(seed)
    rows = history(rng, (it.left, it.right), 300)
    at = rng.randrange(50, 250)
    for part in (rows[:at], rows[at:]):
        it.send(part)
        report = it.backfill()
        assert report.stages == 4, "three passes over the cycle, and the count of its results"
        assert sum(report.read.values()) == len(part)
    changelogs = it.internal("-changelog")
    assert len(changelogs) == 5, "both tables, subscriptions, joined, counted"
    assert list(differences(it.driver.topics, it.written({it.out}), {it.out})) == []
    assert list(last_differences(it.driver.topics, it.written(changelogs), changelogs)) == []
    inner = it.internal("-topic")
    assert len(inner) == 2, "subscriptions and responses"
    assert all(it.driver.topics[topic] != [[]] * PARTITIONS for topic in inner)
    assert it.written(inner) == {topic: [[]] * PARTITIONS for topic in inner}
    committed = it.admin.committed(it.config.application_id)
    assert {committed[TopicPartition(topic, number)].offset for topic in inner for number in range(PARTITIONS)} == {0}
