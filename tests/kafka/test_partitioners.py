"""The partitioners that penstock knows are those that librdkafka has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import Producer

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.partitioners import KeySample, Partitioner
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING

PARTITIONS = 5
KEYS = [f"key-{number}".encode() for number in range(200)]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, Partitioner.CRC32),
        ({"partitioner": "consistent_random"}, Partitioner.CRC32),
        ({"partitioner": "murmur2_random"}, Partitioner.MURMUR2),
        ({"partitioner": "fnv1a"}, Partitioner.UNKNOWN),
    ],
    ids=["default", "consistent_random", "murmur2_random", "fnv1a"],
)
def test_a_topic_is_recognised_by_its_keys(
    broker: str, topic_name: Callable[[str], str], settings: dict[str, str], found: Partitioner
) -> None:
    topic = topic_name("in")
    clients = ConfluentClients.of(StreamsConfig.of({"application.id": topic, "bootstrap.servers": broker}))
    clients.admin().create_topics([NewTopic(topic, PARTITIONS)])
    producer = Producer({"bootstrap.servers": broker, **settings})
    for key in KEYS:
        producer.produce(topic, b"v", key)
    assert producer.flush(60) == 0
    samples = {TopicPartition(topic, number): KeySample(number, PARTITIONS) for number in range(PARTITIONS)}
    read: list[bytes | None] = []
    with closing(clients.consumer()) as consumer:
        consumer.assign(dict.fromkeys(samples, BEGINNING))
        while len(read) < len(KEYS):
            for batch in consumer.poll(1000, 1.0):
                samples[batch.partition].look(batch.keys)
                read += batch.keys
    assert {sample.partitioner for sample in samples.values()} == {found}
    assert sorted(key for key in read if key is not None) == sorted(KEYS)
