"""Knowledge that only librdkafka has, in both forms that penstock has of it."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, cimpl

from penstock.actors.commits.guarantee import answer_to
from penstock.common.errors import BrokerUnreachableError, ConfigError, ProductionError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.binding import binding
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import RecordProducer
from penstock.kafka.producer import ConfluentProducer
from penstock.kafka.transactions import open_transactional_producer
from tests.kafka.conftest import Rig
from tests.waiting import PATIENCE_S

Eventually = Callable[[Callable[[], bool], str], None]
NOWHERE = "127.0.0.1:1"


def producer_with(rig: Rig, **overrides: object) -> RecordProducer:
    """Makes a producer. ``queue_buffering_max_messages`` means ``producer.queue.buffering.max.messages``."""
    assert isinstance(rig.clients, ConfluentClients)
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return replace(rig.clients, producer_overrides=named).producer()


def address_of(rig: Rig) -> str:
    assert isinstance(rig.clients, ConfluentClients)
    return rig.clients.bootstrap_servers


def read_all(rig: Rig, topic: str, count: int, eventually: Eventually) -> list[bytes | None]:
    consumer = rig.clients.consumer()
    found: list[bytes | None] = []

    def all_here() -> bool:
        for batch in consumer.poll(10_000, 0.2):
            found.extend(batch.values)
        return len(found) >= count

    consumer.assign({TopicPartition(topic, 0): 0})
    try:
        eventually(all_here, f"{count} records")
    finally:
        consumer.close()
    return found


def test_a_full_queue_is_waited_for_and_nothing_is_lost_or_moved(real: Rig, eventually: Eventually) -> None:
    topic = real.topic()
    producer = producer_with(real, queue_buffering_max_messages=100)
    values = [b"%d" % number for number in range(5_000)]
    for value in values:
        producer.send(topic, b"k", value, 1, [("h", value)])
    assert producer.flush(60)
    producer.close()
    assert read_all(real, topic, len(values), eventually) == values


def test_headers_may_repeat_and_be_null(real: Rig, eventually: Eventually) -> None:
    topic = real.topic()
    headers = [("a", b"1"), ("a", None), ("ü", b""), ("b", b"\x00\xff")]
    producer = real.clients.producer()
    producer.send(topic, b"k", b"v", 1)
    producer.send(topic, b"k", b"v", 1, headers)
    assert producer.flush(60)
    producer.close()
    consumer = real.clients.consumer()
    consumer.assign({TopicPartition(topic, 0): 0})
    found: list[object] = []

    def both() -> bool:
        for batch in consumer.poll(10, 0.2):
            found.extend(batch.headers or [None] * len(batch))
        return len(found) == 2

    eventually(both, "two records")
    consumer.close()
    assert found == [None, headers]


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_key_or_value_that_is_not_bytes_is_refused_with_its_topic_and_its_type(real: Rig, part: str) -> None:
    producer = real.clients.producer()
    columns = {"key": b"k", "value": b"v", part: "text"}
    with pytest.raises(
        TypeError, match=rf"the {part} for topic 'numbers' is of type str, and must be bytes: fix its serializer"
    ):
        producer.send("numbers", timestamp=1, **columns)  # type: ignore[arg-type]  # that is the point
    producer.close()


@pytest.mark.parametrize(
    ("header", "message"),
    [(("h", "text"), "the header for topic 't' is of type str"), ((b"h", b"v"), "name of a header for topic 't'")],
)
def test_a_header_of_other_types_is_refused(real: Rig, header: Any, message: str) -> None:
    producer = real.clients.producer()
    with pytest.raises(TypeError, match=message):
        producer.send("t", b"k", b"v", 1, [header])
    producer.close()


def test_a_timestamp_with_a_fraction_is_refused(real: Rig) -> None:
    producer = real.clients.producer()
    with pytest.raises(TypeError):
        producer.send("t", b"k", b"v", 1.5)  # type: ignore[arg-type]  # that is the point
    producer.close()


class Topics(StrEnum):
    ORDERS = "t-of-an-enumeration"


def test_the_name_of_a_topic_may_be_a_string_of_a_kind(real: Rig, eventually: Eventually) -> None:
    real.clients.admin().create_topics([NewTopic(Topics.ORDERS.value, 1)])
    producer = real.clients.producer()
    producer.send(Topics.ORDERS, b"k", b"v", 1)
    assert producer.flush(60)
    producer.close()
    assert b"v" in read_all(real, Topics.ORDERS.value, 1, eventually)


def test_nobody_at_the_address_is_nothing_to_die_of(real: Rig) -> None:
    """confluent-kafka's own callbacks for connection errors must not run inside of the binding."""
    assert isinstance(real.clients, ConfluentClients)
    consumer = replace(real.clients, bootstrap_servers=NOWHERE).consumer()
    consumer.assign({TopicPartition("t", 0): 0})
    deadline = time.monotonic() + 2.5  # both attempts to connect, and "all brokers are down", come within two seconds
    while time.monotonic() < deadline:
        assert consumer.poll(10, 0.1) == []
    consumer.close()


def test_errors_that_came_before_the_fetcher_are_nothing_to_die_of() -> None:
    """The consumer connects as soon as it is made. If nothing answers, its error may come before the fetcher."""
    program = """if True:
        from confluent_kafka import Consumer, KafkaException
        from penstock.kafka.fetcher import open_fetcher
        consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
        try:
            consumer.list_topics(timeout=1.0)
        except KafkaException:
            fetcher = open_fetcher(consumer, {})
            print(*fetcher.fetch(10, 0.1))
            fetcher.close()
            consumer.close()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "[] []\n"), done.stderr


@pytest.mark.long
def test_a_topic_that_librdkafka_gives_up_is_nothing_to_die_of(real: Rig, request: pytest.FixtureRequest) -> None:
    """librdkafka reports it among the records, by the callback for errors, when the topic was away for long enough."""
    topic = real.topic(partitions=2)
    program = """if True:
        import sys
        from confluent_kafka import Consumer, TopicPartition
        from penstock.kafka.clients import ConfluentClients
        from penstock.kafka.fetcher import MessageFetcher, open_fetcher
        _, address, topic, form = sys.argv
        settings = {"topic.metadata.refresh.interval.ms": 200, "topic.metadata.propagation.max.ms": 1000}
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "debug": "topic", **settings})
        fetcher = MessageFetcher(consumer) if form == "confluent" else open_fetcher(consumer, {})
        consumer.incremental_assign([TopicPartition(topic, number, 0) for number in range(2)])
        fetcher.fetch(10, 1.0)
        ConfluentClients(address, "g").admin().delete_topics([topic])
        for _ in range(60):
            fetcher.fetch(10, 0.1)
        fetcher.close()
        consumer.close()
    """
    form = request.node.callspec.params["real"]
    arguments = [sys.executable, "-c", program, address_of(real), topic, form]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "partition count changed from 2 to 0" in done.stderr, "librdkafka has not given it up"
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("sent_before", [False, True])
@pytest.mark.parametrize("call", ["poll", "send", "flush"])
def test_a_producer_that_came_to_its_end_reports_why(real: Rig, call: str, sent_before: bool) -> None:
    producer = producer_with(real, bootstrap_servers=NOWHERE)
    if sent_before:
        producer.send("t", b"k", b"v", 1)
    make_fatal(producer)
    calls: dict[str, Callable[[], object]] = {
        "poll": producer.poll,
        "send": lambda: producer.send("t", b"k", b"v", 1),
        "flush": lambda: producer.flush(1.0),
    }
    for _ in range(2):
        with pytest.raises(ProductionError, match=r"the producer has failed.*made by the test"):
            calls[call]()
    producer.close()


def make_fatal(producer: RecordProducer) -> None:
    """Makes the producer fail as if the broker had refused a sequence number."""
    client = producer._client if isinstance(producer, ConfluentProducer) else producer
    start = object.__basicsize__
    # Both forms begin with librdkafka's handle; a class of Cython's with methods of its own has a table before it.
    offset = start if isinstance(producer, ConfluentProducer) else start + ctypes.sizeof(ctypes.c_void_p)
    handle = ctypes.c_void_p.from_address(id(client) + offset)
    ctypes.CDLL(cimpl.__file__).rd_kafka_test_fatal_error(handle, 46, b"made by the test")


def test_a_partition_that_does_not_exist_is_named_at_the_latest_by_flush(real: Rig) -> None:
    topic = real.topic(partitions=1)
    producer = real.clients.producer()

    def write() -> None:
        producer.send(topic, b"k", b"v", 1, None, 7)
        producer.flush(60)

    with pytest.raises(ProductionError, match=rf"{topic}.*the partitioner chose a partition") as raised:
        write()
    assert (raised.value.topic, raised.value.partition, raised.value.key) == (topic, 7, b"k")
    producer.close()


def test_closing_twice_is_allowed_and_gives_up_what_is_queued(real: Rig) -> None:
    producer = producer_with(real, bootstrap_servers=NOWHERE)
    producer.send("t", b"k", b"v", 1)
    producer.close()
    producer.close()


class InterruptedHereError(Exception):
    """Stands in for KeyboardInterrupt, which would end the tests."""


def test_a_flush_can_be_interrupted(real: Rig) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedHereError

    producer = producer_with(real, bootstrap_servers=NOWHERE)
    producer.send("t", b"k", b"v", 1)
    before = signal.signal(signal.SIGALRM, interrupt)
    begin_s = time.monotonic()

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        producer.flush(100.0)

    try:
        with pytest.raises(InterruptedHereError):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begin_s < 50
    producer.close()


def test_a_wrong_setting_is_named(real: Rig) -> None:
    with pytest.raises(ConfigError, match=r"prefix 'producer\.' is wrong.*no.such.thing"):
        producer_with(real, no_such_thing=1).close()
    with pytest.raises(ConfigError, match=r"prefix 'producer\.' is wrong"):
        producer_with(real, compression_type="by hand").close()


def test_a_wrong_combination_of_settings_is_named(real: Rig) -> None:
    with pytest.raises(ConfigError, match=r"prefix 'producer\.' is wrong"):
        producer_with(real, max_in_flight_requests_per_connection=50).close()


def test_a_transactions_marker_behind_the_last_record_is_not_part_of_its_end(real: Rig, eventually: Eventually) -> None:
    topic = real.topic()
    tp = TopicPartition(topic, 0)
    admin = real.clients.admin()
    stranger = Producer({"bootstrap.servers": address_of(real), "transactional.id": f"{topic}-stranger"})
    stranger.init_transactions(60)
    producer = real.clients.producer()
    for expected in (1, 4):
        producer.send(topic, b"k", b"v", 1, None, 0)
        mark = producer.mark()
        eventually(lambda mark=mark: producer.flush(0.05) and mark.delivered(), "the record")  # type: ignore[misc]
        stranger.begin_transaction()
        stranger.produce(topic, b"v", partition=0)
        stranger.commit_transaction(60)
        eventually(lambda expected=expected: admin.end_offsets([tp])[tp] == expected + 2, "the marker")  # type: ignore[misc]
        assert mark.ends() == {tp: expected}
    producer.close()


def test_marks_are_many_and_outlive_their_producer(real: Rig) -> None:
    topic = real.topic()
    producer = real.clients.producer()
    marks = []
    for _ in range(300):
        producer.send(topic, b"k", b"v", 1, None, 0)
        marks.append(producer.mark())
    assert producer.flush(60)
    assert marks[-1].delivered()
    producer.send(topic, b"k", b"v", 1, None, 0)
    unfinished = producer.mark()
    producer.close()
    del producer
    gc.collect()
    assert [mark.ends() for mark in marks] == [{TopicPartition(topic, 0): number + 1} for number in range(300)]
    # Its report is not taken any more, unless the end of the producer took it.
    assert unfinished.ends() == ({TopicPartition(topic, 0): 301} if unfinished.delivered() else {})


def test_a_closed_producer_marks_nothing(real: Rig) -> None:
    producer = producer_with(real, bootstrap_servers=NOWHERE)
    producer.send("t", b"k", b"v", 1, None, 0)
    mark = producer.mark()
    producer.close()
    assert not mark.delivered()
    assert mark.ends() == {}


@pytest.mark.parametrize("partition", [-7, 2_000_000_000])
def test_a_partition_that_no_topic_can_have_is_refused_and_harms_nothing(real: Rig, partition: int) -> None:
    topic = real.topic()
    producer = real.clients.producer()

    def write() -> None:
        producer.send(topic, b"k", b"v", 1, None, partition)
        producer.flush(60)

    with pytest.raises(ProductionError, match=topic):
        write()
    producer.close()


def _threads_of_librdkafka() -> set[str]:
    """Returns their ids. Ray, which other tests start in this process, has threads of its own that come and go."""
    found: set[str] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            if (thread / "comm").read_text().startswith("rdk:"):
                found.add(thread.name)
    return found


@pytest.mark.parametrize("compiled", [True, False])
def test_a_transactional_producer_that_is_given_up_leaves_no_threads_behind(
    compiled: bool, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker is away there is one producer after the other, and Python's garbage is rarely collected."""
    if compiled and binding() is None:
        pytest.skip("the binding is not compiled")
    monkeypatch.setattr("penstock.kafka.transactions._INIT_S", 0.2)
    if not compiled:
        monkeypatch.setattr("penstock.kafka.transactions.binding", lambda: None)
    gc.collect()
    gc.disable()
    try:
        before = _threads_of_librdkafka()
        for _ in range(3):
            producer = open_transactional_producer(NOWHERE, "given-up", {})
            taking = answer_to(producer.init_transactions())
            with pytest.raises(BrokerUnreachableError):
                deque(taking, maxlen=0)
            assert _threads_of_librdkafka() - before, "while those of other tests' clients may end"
            producer.close()
            del producer, taking
        eventually(lambda: not _threads_of_librdkafka() - before, "the end of their threads")
    finally:
        gc.enable()
