"""The end of a partition while a stranger's transaction is open, as Kafka Streams sees it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import Producer

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.broker_ends import BrokerEnds
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING, RecordConsumer

Eventually = Callable[[Callable[[], bool], str], None]


class Stranger:
    """Writes into ``topic`` within one transaction."""

    def __init__(self, broker: str, topic: str) -> None:
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": broker, "transactional.id": f"{topic}-stranger"})
        self.producer.init_transactions(60)
        self.producer.begin_transaction()

    def write(self, value: bytes) -> None:
        self.producer.produce(self.topic, value, partition=0)
        self.producer.flush(60)


def clients(broker: str, group: str, **overrides: str) -> ConfluentClients:
    entries = {"application.id": group, "bootstrap.servers": broker}
    entries.update({f"consumer.{key.replace('_', '.')}": value for key, value in overrides.items()})
    return ConfluentClients.of(StreamsConfig.of(entries))


def polled(consumer: RecordConsumer) -> list[bytes | None]:
    return [value for batch in consumer.poll(100, 0.05) for value in batch.values]


@pytest.fixture
def topic(broker: str, topic_name: Callable[[str], str]) -> str:
    name = topic_name("in")
    clients(broker, name).admin().create_topics([NewTopic(name, 1)])
    producer = clients(broker, name).producer()
    producer.send(name, b"k", b"plain", 1)
    assert producer.flush(60)
    producer.close()
    return name


def test_an_open_transaction_that_grows_is_nothing_to_wait_for_when_only_committed_records_are_read(
    broker: str, topic: str, eventually: Eventually
) -> None:
    tp = TopicPartition(topic, 0)
    seen: list[bytes | None] = []
    with closing(clients(broker, topic, isolation_level="read_committed").consumer()) as consumer:
        consumer.assign({tp: BEGINNING})

        def caught_up() -> bool:
            seen.extend(polled(consumer))
            return consumer.position(tp) == 1 and consumer.end_offset(tp) == 1

        eventually(caught_up, "the end is reached")
        stranger = Stranger(broker, topic)
        for number in range(3):
            stranger.write(b"%d" % number)

            def knows_of_it(high: int = number + 2) -> bool:
                seen.extend(polled(consumer))
                known: int = consumer._watermark(tp)  # type: ignore[attr-defined]  # what the test is about
                return known >= high

            eventually(knows_of_it, "the transaction's record counts in the high watermark")
            eventually(caught_up, "the partition is at its end although the high watermark is beyond")
        assert seen == [b"plain"]
        stranger.producer.commit_transaction(60)

        def all_here() -> bool:
            seen.extend(polled(consumer))
            return seen == [b"plain", b"0", b"1", b"2"]

        eventually(all_here, "what was committed is read")


def test_by_default_records_are_read_whether_committed_or_not_as_in_kafka_streams_under_at_least_once(
    broker: str, topic: str, eventually: Eventually
) -> None:
    tp = TopicPartition(topic, 0)
    stranger = Stranger(broker, topic)
    stranger.write(b"open")
    seen: list[bytes | None] = []
    with closing(clients(broker, topic).consumer()) as consumer:
        assert consumer.fetch_end_offsets([tp]) == {tp: 2}
        consumer.assign({tp: BEGINNING})

        def all_here() -> bool:
            seen.extend(polled(consumer))
            return seen == [b"plain", b"open"]

        eventually(all_here, "the record of the open transaction")
        assert consumer.position(tp) == consumer.end_offset(tp) == 2
        stranger.producer.abort_transaction(60)


def test_an_open_transaction_is_no_partition_that_gives_nothing(
    broker: str, topic: str, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[TopicPartition, int]] = []
    take = BrokerEnds.take

    def noted(ends: BrokerEnds) -> dict[TopicPartition, int] | None:
        if answer := take(ends):
            answers.append(answer)
        return answer

    monkeypatch.setattr(BrokerEnds, "take", noted)
    tp = TopicPartition(topic, 0)
    stranger = Stranger(broker, topic)
    stranger.write(b"open")
    seen: list[bytes | None] = []
    with closing(clients(broker, topic, isolation_level="read_committed").consumer()) as consumer:
        consumer.assign({tp: BEGINNING})

        def read() -> bool:
            seen.extend(polled(consumer))
            return consumer.position(tp) == 1

        eventually(read, "what is in front of the transaction")
        for module in ("fetch_watch", "consumer"):
            monkeypatch.setattr(f"penstock.kafka.{module}.PATIENCE_S", 0.5)
        consumer._look_at_s = 0.0  # type: ignore[attr-defined]  # what the test is about
        client = consumer._client  # type: ignore[attr-defined]  # a new one would be a restart

        def asked_often() -> bool:
            seen.extend(polled(consumer))
            return len(answers) >= 4

        eventually(asked_often, "the broker is asked four times")
        assert consumer._client is client  # type: ignore[attr-defined]
        assert answers == [{tp: 1}] * 4, "the last stable offset, not the high watermark"
        stranger.producer.commit_transaction(60)

        def all_here() -> bool:
            seen.extend(polled(consumer))
            return seen == [b"plain", b"open"]

        eventually(all_here, "what was committed is read")
