"""A producer whose records nobody takes: after ``message.timeout.ms`` it says that they are not delivered."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import KafkaError

from penstock.common.errors import ProductionError
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import RecordProducer, TransactionAbortedError, UndeliveredError
from penstock.kafka.producer import ConfluentProducer, open_producer
from penstock.kafka.refusals import refused
from penstock.kafka.settings import producer_settings
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeClients
from penstock.testing.fake_producers import FakeProducer
from tests.kafka.conftest import Rig

OVERRIDES = {"message.timeout.ms": 300}


def confluent(address: str) -> RecordProducer:
    return ConfluentProducer(address, producer_settings(address, OVERRIDES))


def compiled(address: str) -> RecordProducer:
    return open_producer(address, OVERRIDES)


@pytest.mark.parametrize("make", [confluent, compiled])
def test_records_that_no_broker_takes_are_told_to_be_undelivered(
    make: Callable[[str], RecordProducer], eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody, closing(make(f"127.0.0.1:{nobody.getsockname()[1]}")) as it:
        it.send("t", b"k", b"v", 1, None, 0)
        told: list[UndeliveredError] = []

        def is_told() -> bool:
            try:
                it.flush(0.05)
            except UndeliveredError as error:
                told.append(error)
            return bool(told)

        eventually(is_told, "it is told")
        check(told[0], it)


def test_the_fake_producer_tells_it_likewise() -> None:
    broker = FakeBroker()
    FakeClients("g", broker).admin().create_topics([NewTopic("t", 1)])
    producer = FakeProducer(broker)
    broker.down = True
    producer.send("t", b"k", b"v", 1, None, 0)
    producer.poll()
    producer.expire()
    with pytest.raises(UndeliveredError) as told:
        producer.poll()
    check(told.value, producer)


def check(told: UndeliveredError, producer: RecordProducer) -> None:
    """It is said of which topic, and again by whatever is asked next, until the producer is to give up."""
    assert "topic 't' within message.timeout.ms" in str(told)
    assert not isinstance(told, TransactionAbortedError)
    assert not told.producer_is_spent
    mark = producer.mark()
    for ask in (producer.poll, lambda: producer.flush(0.01)):
        with pytest.raises(UndeliveredError):
            ask()
    assert not mark.delivered()
    assert producer.give_up(5)
    producer.poll()
    assert producer.flush(0.01)
    assert not mark.delivered()
    assert producer.mark().delivered()


def test_what_is_sent_right_after_giving_up_is_not_given_up_too(rig: Rig) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        for each in range(20):
            producer.send(topic, b"given up, or not", b"%d" % each, 1, None, 0)
            assert producer.give_up(5)
            producer.send(topic, b"kept", b"%d" % each, 1, None, 0)
            assert producer.flush(20)


@pytest.mark.parametrize("code", [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.INVALID_PRODUCER_EPOCH])
def test_a_producer_that_the_broker_knows_no_more_is_replaced_as_in_kafka_streams(code: int) -> None:
    assert isinstance(refused(code, "what librdkafka says", None, None, None), UndeliveredError)


def test_a_producer_that_may_not_write_ends_the_application() -> None:
    assert isinstance(refused(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no", None, None, None), ProductionError)
