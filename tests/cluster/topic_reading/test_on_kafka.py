"""Reads of topics of a real broker: transactions, large values, and partitions without records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.cluster.record_side import Form, KeyScan
from penstock.cluster.topic_reading.key_records import KeyOf, key_records
from penstock.cluster.topic_reading.keys import KeyForm
from penstock.cluster.topic_reading.peek import peeked
from penstock.cluster.topic_reading.sources import PickledSerdes, TopicSource, reading_clients
from penstock.cluster.topic_reading.topic_serdes import TopicSerdes
from penstock.common.config import StreamsConfig
from penstock.common.errors import MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serdes
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.kafka.stable import until_stable
from tests.waiting import PATIENCE_S

TEXT = Serdes.string()
SERDES = PickledSerdes.of(TopicSerdes(TEXT, TEXT, "read by source"))
LARGE = 5_000_000
PATIENT = {"transaction.timeout.ms": 60_000}
"""Keeps a transaction open although this process is stopped for seconds in the midst of it."""
_LIMITS = ("peek.MOST_S", "peek.DECODE_S", "key_records._MOST_S", "key_records.DECODE_S")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives reads time for all records. Otherwise they end after 2 to 5 s, on a busy machine with a part of them."""
    for limit in _LIMITS:
        monkeypatch.setattr(f"penstock.cluster.topic_reading.{limit}", PATIENCE_S)


def source(broker: str, guarantee: str = "exactly_once_v2") -> TopicSource:
    entries = {"application.id": "app", "bootstrap.servers": broker, "processing.guarantee": guarantee}
    clients = reading_clients(StreamsConfig.of(entries))
    return TopicSource(clients, clients.reads_committed, SERDES)


def test_a_peek_finds_committed_records_behind_markers_and_open_transactions_and_clips_large_ones(
    broker: str, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("peeked")
    large = {"max.message.bytes": str(2 * LARGE)}
    writers = ConfluentClients(broker, topic, producer_overrides={"message.max.bytes": 2 * LARGE, **PATIENT})
    writers.admin().create_topics([NewTopic(topic, 3, config=large)])
    producer = writers.transactional_producer(topic)
    producer.init_transactions().result(60)
    for number in range(30):
        producer.begin_transaction()
        producer.send(topic, b"k", f"v{number}".encode(), 1000 + number, [("h", None)], 0)
        assert producer.flush(60)
        (producer.commit_transaction({}, b"") if number % 3 else producer.abort_transaction()).result(60)
    producer.begin_transaction()
    producer.send(topic, b"k", b"x" * LARGE, 2000, None, 1)
    producer.commit_transaction({}, b"").result(60)
    producer.begin_transaction()
    producer.send(topic, b"k", b"open", 3000, None, 0)
    assert producer.flush(60)

    found = peeked(source(broker), SERDES, topic, 10)
    values = [record.value for record in found.records if record.value]
    assert (values[0].form, values[0].size, values[0].clipped) == (Form.TEXT, LARGE, True)
    wanted = [f"v{number}" for number in range(29, 0, -1) if number % 3][:9]
    assert [each.value for each in values[1:]] == wanted
    assert [each.end for each in found.looked] == [60, 2, 0]
    assert found.stopped is None
    assert found.committed_only
    dirty = peeked(source(broker, "at_least_once"), SERDES, topic, 10)
    assert [each.value and each.value.value for each in dirty.records][:3:2] == ["open", "v29"]
    producer.abort_transaction().result(60)
    producer.close()


def test_all_versions_of_a_key_in_transactions_are_found_and_those_since_a_time(
    broker: str, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("versions")
    writers = ConfluentClients(broker, topic, producer_overrides=PATIENT)
    writers.admin().create_topics([NewTopic(topic, 2, config={"cleanup.policy": "compact"})])
    producer = writers.transactional_producer(topic)
    producer.init_transactions().result(60)
    for number in range(30):
        producer.begin_transaction()
        for written in (b"k", b"other"):
            value = f"v{number}".encode() if number % 5 else None
            producer.send(topic, written, value, 1000 + number, None, 1)
        assert producer.flush(60)
        (producer.commit_transaction({}, b"") if number % 3 else producer.abort_transaction()).result(60)
    producer.close()
    until_stable(writers, [TopicPartition(topic, 1)])
    key = KeyOf(KeyForm(), b"k", (1,))
    wanted = [f"v{number}" if number % 5 else None for number in range(29, 0, -1) if number % 3]
    found = key_records(source(broker), SERDES, topic, key, KeyScan())
    assert [each.value and each.value.value for each in found.records] == wanted
    assert (found.compacted, found.cursor, found.stopped) == (True, None, None)
    first = key_records(source(broker), SERDES, topic, key, KeyScan(7))
    rest = key_records(source(broker), SERDES, topic, key, KeyScan(cursor=first.cursor))
    assert [each.value and each.value.value for each in (*first.records, *rest.records)] == wanted
    assert key_records(source(broker), SERDES, topic, key, KeyScan(from_ms=1 << 45)).records == ()
    plain = writers.producer()
    for number in range(20):
        plain.send(topic, b"k", b"v", 5000 + number, None, 0)
        assert plain.flush(60)
    plain.close()
    since = key_records(source(broker), SERDES, topic, KeyOf(KeyForm(), b"k", (0,)), KeyScan(from_ms=5015))
    assert [each.timestamp for each in since.records] == [5019, 5018, 5017, 5016, 5015]


def test_a_topic_that_does_not_exist_is_not_created(broker: str, topic_name: Callable[[str], str]) -> None:
    topic = topic_name("absent")
    reads = source(broker)
    with pytest.raises(MissingTopicError):
        peeked(reads, SERDES, topic, 10)
    assert topic not in reads.clients.admin().topics()
