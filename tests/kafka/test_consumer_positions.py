"""How far the consumer is, from what librdkafka hands over: records and the events between them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Tpo

from penstock.common.ids import TopicPartition
from penstock.kafka.consumer import ConfluentConsumer
from penstock.kafka.fetcher import MessageFetcher

TP = TopicPartition("t", 0)


class Client:
    """Hands over what the test prepared."""

    def __init__(self) -> None:
        self.ready: list[Message] = []
        self.high = 0

    def consume(self, most: int, timeout_s: float) -> list[Message]:
        taken, self.ready = self.ready[:most], self.ready[most:]
        return taken

    def get_watermark_offsets(self, partition: Tpo, cached: bool) -> tuple[int, int]:
        return 0, self.high

    def incremental_assign(self, partitions: list[Tpo]) -> None:
        pass


def record(offset: int) -> Message:
    return Message(topic=TP.topic, partition=TP.partition, offset=offset, value=b"v", timestamp=(1, 7))


def end(offset: int) -> Message:
    eof = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic=TP.topic, partition=TP.partition, offset=offset, error=eof)


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def consumer(client: Client) -> ConfluentConsumer:
    made = ConfluentConsumer("127.0.0.1:1", "group", {})
    made.close()
    made._client = client  # type: ignore[assignment]  # all of it that is used here
    made._fetcher = MessageFetcher(made._client)
    made.assign({TP: 0})
    return made


def test_markers_behind_the_last_record_are_passed_when_the_end_comes_with_the_records(
    client: Client, consumer: ConfluentConsumer
) -> None:
    client.high = 3
    client.ready = [record(0), record(1), end(3)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0, 1]]
    assert consumer.position(TP) == consumer.end_offset(TP) == 3


def test_an_open_transaction_at_the_end_is_nothing_to_wait_for(client: Client, consumer: ConfluentConsumer) -> None:
    client.high = 9
    client.ready = [record(0), record(1), end(2)]
    consumer.poll(10, 0)
    assert consumer.position(TP) == consumer.end_offset(TP) == 2


def test_an_end_that_more_records_follow_is_not_the_end_any_more(client: Client, consumer: ConfluentConsumer) -> None:
    client.high = 6
    client.ready = [record(0), end(1), *map(record, range(1, 6))]
    consumer.poll(3, 0)
    assert (consumer.position(TP), consumer.end_offset(TP)) == (2, 6)
    consumer.poll(10, 0)
    assert (consumer.position(TP), consumer.end_offset(TP)) == (6, 6)


def test_offsets_with_gaps_stay_what_they_are(client: Client, consumer: ConfluentConsumer) -> None:
    client.ready = [record(0), record(2), record(3)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0, 2, 3]]
    assert consumer.position(TP) == 4
