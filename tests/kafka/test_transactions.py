"""The promises of every form of a transactional producer: the fake broker and a real one pass the same tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import KafkaRefusedError, ProductionError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.clients import ConfluentClients, KafkaClients
from penstock.kafka.contracts import (
    BEGINNING,
    GroupMember,
    RecordConsumer,
    TransactionAbortedError,
    TransactionalProducer,
)
from penstock.kafka.transactions import Transactions
from penstock.testing.fake_clients import FakeClients
from tests.kafka.conftest import Rig

Eventually = Callable[[Callable[[], bool], str], None]


SETTINGS = {"transactional.id": "app-1", "transaction.timeout.ms": 10_000}


def committed_only(clients: KafkaClients) -> KafkaClients:
    if isinstance(clients, FakeClients):
        return dataclasses.replace(clients, read_committed=True)
    assert isinstance(clients, ConfluentClients)
    return dataclasses.replace(
        clients, consumer_overrides={**clients.consumer_overrides, "isolation.level": "read_committed"}
    )


@contextmanager
def producing(rig: Rig, name: str = "0") -> Iterator[TransactionalProducer]:
    with closing(rig.clients.transactional_producer(f"{rig.group}-{name}")) as producer:
        producer.init_transactions().result(60)
        producer.begin_transaction()
        yield producer


@contextmanager
def joined_member(rig: Rig, topic: str, eventually: Eventually, instance: str = "member") -> Iterator[GroupMember]:
    assigned: list[frozenset[TopicPartition] | None] = []
    with closing(rig.clients.group_member(instance)) as member:
        member.subscribe([topic], assigned.append)

        def has_joined() -> bool:
            member.poll(0.1)
            return bool(assigned)

        eventually(has_joined, "membership in the group")
        yield member


class Reader:
    """Reads committed records, from the beginning of partition 0."""

    def __init__(self, rig: Rig, topic: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self.consumer: RecordConsumer = committed_only(rig.clients).consumer()
        self.consumer.assign({self.partition: BEGINNING})
        self.values: list[bytes | None] = []
        self.offsets: list[int] = []

    def poll(self) -> None:
        for batch in self.consumer.poll(1000, 0.05):
            self.values += batch.values
            self.offsets += batch.offsets

    def comes_to(self, *values: bytes) -> Callable[[], bool]:
        def at_end() -> bool:
            self.poll()
            end = self.consumer.fetch_end_offsets([self.partition])[self.partition]
            return self.values == [*values] and self.consumer.position(self.partition) == end

        return at_end


@pytest.fixture
def reader(rig: Rig) -> Iterator[Callable[[str], Reader]]:
    made: list[Reader] = []

    def read(topic: str) -> Reader:
        made.append(Reader(rig, topic))
        return made[-1]

    yield read
    for each in made:
        each.consumer.close()


def test_sent_records_are_visible_once_they_are_committed(
    rig: Rig, eventually: Eventually, reader: Callable[[str], Reader]
) -> None:
    topic = rig.topic()
    it = reader(topic)
    with producing(rig) as producer:
        producer.send(topic, b"k", b"1", 1, None, 0)
        assert producer.flush(60)
        eventually(it.comes_to(), "the end, which is in front of the open transaction")
        producer.commit_transaction({}, b"").result(60)
        eventually(it.comes_to(b"1"), "the record")
        producer.begin_transaction()
        producer.send(topic, b"k", b"2", 2, None, 0)
        producer.commit_transaction({}, b"").result(60)  # without a flush
        eventually(it.comes_to(b"1", b"2"), "the next one")
    assert it.offsets == [0, 2], "each transaction ends with a marker"


def test_aborted_records_are_never_visible_and_the_next_transaction_counts(
    rig: Rig, eventually: Eventually, reader: Callable[[str], Reader]
) -> None:
    topic = rig.topic()
    it = reader(topic)
    with producing(rig) as producer:
        producer.send(topic, b"k", b"delivered", 1, None, 0)
        assert producer.flush(60)
        producer.send(topic, b"k", b"queued", 1, None, 0)
        producer.abort_transaction().result(60)
        producer.begin_transaction()
        mark = producer.mark()
        assert mark.delivered(), "nothing was sent in this one"
        producer.send(topic, b"k", b"good", 2, None, 0)
        sent = producer.mark()
        assert producer.flush(60)
        assert sent.delivered()
        producer.commit_transaction({}, b"").result(60)
        eventually(it.comes_to(b"good"), "the one that counts")
        assert sent.ends() == {TopicPartition(topic, 0): it.offsets[0] + 1}, "behind the record, not the marker"


def test_offsets_are_committed_with_the_records(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    offsets = {first: CommittedOffset(1, "note"), second: CommittedOffset(7, "")}
    with joined_member(rig, topic, eventually) as member, producing(rig) as producer:
        producer.send(topic, b"k", b"1", 1, None, 0)
        producer.commit_transaction(offsets, member.group_metadata()).result(60)
        with closing(committed_only(rig.clients).consumer()) as consumer:
            found: dict[TopicPartition, CommittedOffset] = {}

            def committed() -> bool:
                found.update(consumer.committed([first, second]))
                return len(found) == 2

            eventually(committed, "both offsets")
        assert found == offsets


def test_offsets_of_a_transaction_that_is_aborted_do_not_count(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    with joined_member(rig, topic, eventually) as member, producing(rig) as producer:
        producer.commit_transaction({tp: CommittedOffset(5, "")}, member.group_metadata()).result(60)
        producer.begin_transaction()
        producer.send(topic, b"k", b"1", 1, None, 0)
        # Right behind a commit the broker may not begin a transaction yet. An abort at that moment ends the producer
        # (INVALID_TXN_STATE), and penstock replaces it.
        assert producer.flush(60)
        producer.abort_transaction().result(60)
        producer.begin_transaction()
        with closing(committed_only(rig.clients).consumer()) as consumer:
            eventually(lambda: consumer.committed([tp]) == {tp: CommittedOffset(5, "")}, "the offset")


def test_the_last_to_take_an_id_has_it(rig: Rig, eventually: Eventually, reader: Callable[[str], Reader]) -> None:
    topic = rig.topic()
    it = reader(topic)
    with producing(rig) as zombie:
        zombie.send(topic, b"k", b"of the zombie", 1, None, 0)
        assert zombie.flush(60)
        with producing(rig) as successor:
            with pytest.raises(TransactionAbortedError) as fenced:
                zombie.commit_transaction({}, b"").result(60)
            assert fenced.value.producer_is_spent
            successor.send(topic, b"k", b"of the successor", 2, None, 0)
            successor.commit_transaction({}, b"").result(60)
        eventually(it.comes_to(b"of the successor"), "the successor's record alone")


def test_a_fenced_producer_raises_when_it_sends(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    with producing(rig) as zombie, producing(rig):

        def refused() -> bool:
            try:
                zombie.send(topic, b"k", b"1", 1, None, 0)
                zombie.flush(0.2)
            except TransactionAbortedError as error:
                return error.producer_is_spent
            return False

        eventually(refused, "the refusal")


def test_offsets_of_a_replaced_member_are_refused_and_the_producer_continues(
    rig: Rig, eventually: Eventually, reader: Callable[[str], Reader]
) -> None:
    topic = rig.topic()
    it = reader(topic)
    tp = TopicPartition(topic, 0)
    with producing(rig) as producer:
        with joined_member(rig, topic, eventually) as member:
            old = member.group_metadata()
        with joined_member(rig, topic, eventually) as member:
            producer.send(topic, b"k", b"refused", 1, None, 0)
            with pytest.raises(TransactionAbortedError) as refused:
                producer.commit_transaction({tp: CommittedOffset(1, "")}, old).result(60)
            assert not refused.value.producer_is_spent
            producer.abort_transaction().result(60)
            producer.begin_transaction()
            producer.send(topic, b"k", b"taken", 2, None, 0)
            producer.commit_transaction({tp: CommittedOffset(2, "")}, member.group_metadata()).result(60)
            eventually(it.comes_to(b"taken"), "what the member has committed")


def test_a_record_that_the_broker_refuses_is_the_record_s_fault_and_what_was_sent_is_aborted(
    rig: Rig, eventually: Eventually, reader: Callable[[str], Reader]
) -> None:
    topic = rig.topic(max_message_bytes="1000")
    with producing(rig) as producer:
        producer.send(topic, b"k", b"small", 1, None, 0)
        producer.send(topic, b"k", b"x" * 5000, 1, None, 0)
        with pytest.raises(ProductionError, match=topic):
            eventually(lambda: producer.flush(0.2), "the refusal")
        producer.abort_transaction().result(60)
    eventually(reader(topic).comes_to(), "the end, and no record")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "allow this client to describe and write transactional ids"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "lower producer.transaction.timeout.ms"),
    ],
)
def test_an_id_that_is_refused_for_good_is_an_error_that_names_the_remedy_and_is_not_retried(
    code: int, advice: str
) -> None:
    class Refusing:
        def init_transactions(self, timeout_s: float) -> None:
            raise KafkaException(KafkaError(code, "not for you", fatal=True))

    client: Any = Refusing()
    with pytest.raises(KafkaRefusedError, match=r"cannot take the transactional id 'app-1'.*not for you") as refused:
        Transactions(client, "here:9092", SETTINGS).init().result(60)
    assert advice in str(refused.value)


@pytest.mark.parametrize("must_abort", [True, False])
def test_offsets_of_a_topic_that_is_gone_abort_the_transaction_and_end_nothing(must_abort: bool) -> None:
    class Gone:
        def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any, timeout_s: float) -> None:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "orders[0]", txn_requires_abort=must_abort)
            raise KafkaException(error)

    client: Any = Gone()
    with pytest.raises(TransactionAbortedError, match="orders") as aborted:
        Transactions(client, "here:9092", SETTINGS).commit([("orders", 0, 5, "")], b"member").result(60)
    assert aborted.value.producer_is_spent is not must_abort
