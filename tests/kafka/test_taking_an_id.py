"""Taking a ``transactional.id`` while its last owner's transaction is open: this is how a lost actor is fenced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.kafka.contracts import TransactionAbortedError
from penstock.kafka.transactions import Transactions
from tests.kafka.conftest import Rig
from tests.kafka.test_transactions import Reader, producing

Eventually = Callable[[Callable[[], bool], str], None]


class Librdkafka:
    """``init_transactions`` of librdkafka, with a broker that gives ``answers`` one after the other and then the id. It
    asks once a call, and again by itself only after half a second, which never passes here."""

    def __init__(self, *answers: KafkaError) -> None:
        self.answers = [*answers]
        self.waited_s = 0.0

    def init_transactions(self, timeout_s: float) -> None:
        self.waited_s += timeout_s
        if self.answers:
            raise KafkaException(self.answers.pop(0))

    def send_offsets_to_transaction(self, *_: object) -> None:
        raise AssertionError("no transaction has begun")

    begin_transaction = commit_transaction = abort_transaction = send_offsets_to_transaction


ENDING = KafkaError(KafkaError.CONCURRENT_TRANSACTIONS, "another is being ended", retriable=True)
NOBODY = KafkaError(KafkaError._TIMED_OUT, "nobody answers", retriable=True)
NOT_ALLOWED = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed", fatal=True)


def test_a_producer_that_takes_an_id_asks_again_as_soon_as_the_open_transaction_may_have_ended() -> None:
    client = Librdkafka(NOBODY, ENDING, ENDING)
    Transactions(client, "broker", {"transactional.id": "id", "transaction.timeout.ms": 10_000}).init().result(60)
    assert not client.answers
    assert client.waited_s < 0.5, "sooner than librdkafka would by itself"


def test_it_asks_no_more_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.kafka.transactions._INIT_S", 0.0)
    client = Librdkafka(ENDING, ENDING)
    with pytest.raises(BrokerUnreachableError, match=r"transactional id 'id'.*another is being ended"):
        Transactions(client, "broker", {"transactional.id": "id", "transaction.timeout.ms": 10_000}).init().result(60)
    assert client.answers == [ENDING]


def test_a_final_refusal_is_not_retried() -> None:
    client = Librdkafka(NOT_ALLOWED)
    with pytest.raises(StreamsError, match="not allowed"):
        Transactions(client, "broker", {"transactional.id": "id", "transaction.timeout.ms": 10_000}).init().result(60)


def test_an_id_goes_from_hand_to_hand_with_every_transaction_open(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(3)
    with ExitStack() as ends:
        zombies = []
        for number in range(8):
            taker = ends.enter_context(producing(rig))
            for partition in range(3):
                taker.send(topic, b"k", b"%d" % number, number, None, partition)
            assert taker.flush(60)
            zombies.append(taker)
        last = zombies.pop()
        for zombie in zombies:
            with pytest.raises(TransactionAbortedError) as fenced:
                zombie.commit_transaction({}, b"").result(60)
            assert fenced.value.producer_is_spent
        last.commit_transaction({}, b"").result(60)
        reader = Reader(rig, topic)
        ends.callback(reader.consumer.close)
        eventually(reader.comes_to(b"7"), "the last one's record alone")
