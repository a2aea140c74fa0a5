"""Waits with a time-out for librdkafka's answers, and for calls from which it may never return."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo

from penstock.kafka.settings import REQUEST_TIMEOUT_S

T = TypeVar("T")
ANSWER_TIMEOUT_S = REQUEST_TIMEOUT_S + 2.0
"""librdkafka 2.16 may never answer a request to a broker that has gone since."""


def bounded_result(answer: Future[T], timeout_s: float = ANSWER_TIMEOUT_S) -> T:
    """Returns the answer. Raises KafkaException, also when time is up."""
    try:
        return answer.result(timeout_s)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


def begin_commit(client: Consumer, offsets: list[Tpo]) -> Future[list[Tpo]]:
    """Commits in a thread: librdkafka keeps a commit until a broker answers, however long that takes."""
    answers: Future[list[Tpo]] = Future()

    def commit() -> None:
        try:
            answers.set_result(client.commit(offsets=offsets, asynchronous=False) or [])
        except Exception as error:  # it must reach the caller
            answers.set_exception(error)

    threading.Thread(target=commit, name="group-commit", daemon=True).start()
    return answers
