"""The effects of librdkafka's refusal of a record on the transaction, and on the producer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from penstock.kafka.contracts import TransactionAbortedError
from penstock.kafka.refusals import refused_in_transaction


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT])
def test_a_producer_with_a_record_of_which_nobody_knows_whether_it_is_written_is_used_no_more(code: int) -> None:
    error = refused_in_transaction(code, None, "out", 0, b"k")
    assert isinstance(error, TransactionAbortedError)
    assert error.producer_is_spent


@pytest.mark.parametrize("code", [KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError.NOT_ENOUGH_REPLICAS])
def test_a_producer_whose_record_is_certainly_not_written_aborts_the_transaction_and_continues(code: int) -> None:
    error = refused_in_transaction(code, None, "out", 0, b"k")
    assert isinstance(error, TransactionAbortedError)
    assert not error.producer_is_spent
