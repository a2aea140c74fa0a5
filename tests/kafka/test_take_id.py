"""The time for which the coordinator, and ``start()``, wait for a ``transactional.id``."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError
from penstock.kafka.transactions import take_id


class Producer:
    """Answers by the test's future."""

    answers_within_s = 0.01

    def __init__(self) -> None:
        self.asked: Future[None] = Future()
        self.closed = False

    def init_transactions(self) -> Future[None]:
        return self.asked

    def close(self) -> None:
        self.closed = True


def take(producer: Any) -> None:
    take_id(producer, "fence the owner of 'app-1'")


def test_an_id_that_is_taken_closes_the_producer() -> None:
    producer = Producer()
    producer.asked.set_result(None)
    take(producer)
    assert producer.closed


def test_a_refusal_closes_the_producer() -> None:
    producer = Producer()
    producer.asked.set_exception(KafkaRefusedError("not allowed"))
    with pytest.raises(KafkaRefusedError):
        take(producer)
    assert producer.closed


def test_a_call_that_does_not_return_has_a_limit_and_keeps_its_client_until_it_does() -> None:
    producer = Producer()
    with pytest.raises(BrokerUnreachableError, match="cannot fence the owner of 'app-1': librdkafka has not returned"):
        take(producer)
    assert not producer.closed, "a client that a call is in must not be destroyed"
    producer.asked.set_result(None)
    assert producer.closed
