"""A producer whose records no broker takes: after ``message.timeout.ms`` it reports that they are not delivered."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError

from penstock.common.errors import ProductionError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.binding import binding
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


def native(address: str, settings: Mapping[str, Any]) -> RecordProducer:
    if binding() is None:
        pytest.skip("penstock's binding to librdkafka was not built here")
    from penstock.kafka.native_producer import NativeProducer

    return NativeProducer(address, settings)


@pytest.mark.parametrize("make", [confluent, compiled])
def test_records_that_no_broker_takes_are_reported_as_undelivered(
    make: Callable[[str], RecordProducer], eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody, closing(make(f"127.0.0.1:{nobody.getsockname()[1]}")) as it:
        it.send("t", b"k", b"v", 1, None, 0)
        reported: list[UndeliveredError] = []

        def is_reported() -> bool:
            try:
                it.flush(0.05)
            except UndeliveredError as error:
                reported.append(error)
            return bool(reported)

        eventually(is_reported, "the error")
        check(reported[0], it)


def test_the_fake_producer_reports_it_likewise() -> None:
    broker = FakeBroker()
    FakeClients("g", broker).admin().create_topics([NewTopic("t", 1)])
    producer = FakeProducer(broker)
    broker.down = True
    producer.send("t", b"k", b"v", 1, None, 0)
    producer.poll()
    producer.expire()
    with pytest.raises(UndeliveredError) as reported:
        producer.poll()
    check(reported.value, producer)


def check(reported: UndeliveredError, producer: RecordProducer) -> None:
    """Asserts that the error names the topic, and that each further call raises it again until ``give_up``."""
    assert "topic 't' within message.timeout.ms" in str(reported)
    assert not isinstance(reported, TransactionAbortedError)
    assert not reported.producer_is_spent
    mark = producer.mark()
    for ask in (producer.poll, lambda: producer.flush(0.01)):
        with pytest.raises(UndeliveredError):
            ask()
    assert not mark.delivered()
    assert producer.give_up(60)
    producer.poll()
    assert producer.flush(0.01)
    assert not mark.delivered()
    assert producer.mark().delivered()


def test_records_sent_right_after_giving_up_are_not_given_up(rig: Rig) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        for each in range(20):
            producer.send(topic, b"given up, or not", b"%d" % each, 1, None, 0)
            assert producer.give_up(60)
            producer.send(topic, b"kept", b"%d" % each, 1, None, 0)
            assert producer.flush(60)


@pytest.mark.parametrize("code", [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.INVALID_PRODUCER_EPOCH])
def test_a_producer_that_the_broker_knows_no_more_is_replaced_as_in_kafka_streams(code: int) -> None:
    assert isinstance(refused(code, "what librdkafka says", None, None, None), UndeliveredError)


def test_a_producer_that_may_not_write_ends_the_application() -> None:
    assert isinstance(refused(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no", None, None, None), ProductionError)


@pytest.mark.parametrize("make", [ConfluentProducer, native])
def test_a_send_that_waits_in_a_full_queue_ends_when_another_thread_withholds_the_producer(
    make: Callable[[str, Mapping[str, Any]], RecordProducer], eventually: Callable[[Callable[[], bool], str], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        settings = producer_settings(address, {"queue.buffering.max.messages": 10})
        with closing(make(address, settings)) as producer, ThreadPoolExecutor() as threads:
            sent: list[int] = []

            def fill() -> None:
                for each in range(100):
                    producer.send("t", b"k", b"%d" % each, 1, None, 0)
                    sent.append(each)

            filling = threads.submit(fill)
            eventually(lambda: len(sent) == 10, "the queue is full")
            assert not filling.done()
            producer.withhold()
            with pytest.raises(UndeliveredError, match="withdrawn"):
                filling.result(60)
            assert producer.give_up(60)
            with pytest.raises(UndeliveredError, match="withdrawn"):
                producer.send("t", b"k", b"later", 1, None, 0)


def test_a_producer_that_is_withheld_refuses_records_and_reports_each_loss_until_it_resumes(rig: Rig) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"k", b"before", 1, None, 0)
        assert producer.flush(60)
        mark = producer.mark()
        producer.withhold()
        producer.poll()
        with pytest.raises(UndeliveredError, match="withdrawn"):
            producer.send(topic, b"k", b"refused", 1, None, 0)
        producer.resume()
        with pytest.raises(UndeliveredError, match="withdrawn"):
            producer.poll()
        assert mark.ends() == {TopicPartition(topic, 0): 1}
        assert producer.give_up(60)
        producer.send(topic, b"k", b"after", 1, None, 0)
        assert producer.flush(60)
        assert rig.clients.admin().end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}


def test_a_producer_that_is_withheld_without_a_loss_continues_with_its_marks(rig: Rig) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"k", b"before", 1, None, 0)
        assert producer.flush(60)
        producer.withhold()
        producer.resume()
        assert producer.flush(0.0)
        assert producer.mark().ends() == {TopicPartition(topic, 0): 1}
