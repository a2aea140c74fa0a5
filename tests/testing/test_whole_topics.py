"""Tests of reading whole topics."""

from __future__ import annotations

from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_clients import FakeClients
from penstock.testing.whole_topics import whole


def test_all_records_of_all_partitions_come_and_partitions_without_any_are_passed_over() -> None:
    clients = FakeClients("app")
    clients.admin().create_topics([NewTopic("t", 3)])
    producer = clients.producer()
    for number in range(5):
        producer.send("t", None, b"%d" % number, 1, None, number % 2)
    assert producer.flush(1)
    found = list(whole(clients, [TopicPartition("t", number) for number in range(3)]))
    assert sorted((batch.partition.partition, value) for batch in found for value in batch.values) == [
        (0, b"0"), (0, b"2"), (0, b"4"), (1, b"1"), (1, b"3"),
    ]  # fmt: skip
