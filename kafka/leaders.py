"""The leaders that librdkafka remembers, and when it must look them up again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.kafka.settings import MISSING_TOPIC, REQUEST_TIMEOUT_S, RETRIABLE, code_of

T = TypeVar("T")
_CONTROLLER_S = 2.0
LEADERS_OUTDATED = RETRIABLE | MISSING_TOPIC
"""Errors of a broker that is asked as the leader, but is not the leader any more, or not yet."""


def refresh_leaders(client: AdminClient | Consumer, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    """Let ``client`` look up the leaders of all partitions. By itself it would continue to ask those that it knows, of
    an epoch that has passed (librdkafka 2.16). Raises KafkaException.

    All topics, since an admin client that asks for one by its name has the broker create it, if that is allowed.
    """
    client.list_topics(timeout=timeout_s)


def checked_offset(offset: int) -> int:
    """Returns ``offset``, if it is an answer: for a partition whose leader dies while it is asked librdkafka 2.16 gives
    OFFSET_INVALID, and no error beside it. Raises KafkaException, as for a leader that is no more."""
    if offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return offset


def of_the_leaders(client: AdminClient | Consumer, ask: Callable[[], T]) -> T:
    """Returns the result of ``ask``. If an error calls the leaders outdated, it is raised; a repetition asks others."""
    try:
        return ask()
    except KafkaException as error:
        if code_of(error) in LEADERS_OUTDATED:
            refresh_leaders(client)
        raise


def of_the_controller(client: AdminClient, ask: Callable[[], T]) -> T:
    """Returns the result of ``ask``. If time is up, the error is raised, and a repetition may ask another: by itself
    ``client`` would wait for the controller that it knows, which may have died (librdkafka 2.16)."""
    try:
        return ask()
    except KafkaException as error:
        if code_of(error) == KafkaError._TIMED_OUT:
            with suppress(KafkaException):  # nobody answers, as ``error`` says
                refresh_leaders(client, _CONTROLLER_S)
        raise
