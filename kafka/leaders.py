"""Has librdkafka look up again the leaders of partitions that it remembers."""

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
"""Errors of a broker that is no longer, or not yet, the leader of the partition."""


def refresh_leaders(client: AdminClient | Consumer, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
    """Let ``client`` look up the leaders of all partitions. By itself librdkafka 2.16 would continue to ask the leaders
    of a past epoch. Raises KafkaException.

    It asks for all topics: a request for one topic by name would have the broker create it, if that is allowed.
    """
    client.list_topics(timeout=timeout_s)


def checked_offset(offset: int) -> int:
    """Returns ``offset``, if it is an answer. If the leader of a partition dies while it is asked, librdkafka 2.16
    returns OFFSET_INVALID without an error: then this raises KafkaException, as for a leader that is not available."""
    if offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return offset


def of_the_leaders(client: AdminClient | Consumer, ask: Callable[[], T]) -> T:
    """Returns the result of ``ask``. Raises its error, unless the leaders were outdated: then ``ask`` is called once
    more, and asks the new ones."""
    try:
        return ask()
    except KafkaException as error:
        if code_of(error) not in LEADERS_OUTDATED:
            raise
        refresh_leaders(client)
    return ask()


def of_the_controller(client: AdminClient, ask: Callable[[], T]) -> T:
    """Returns the result of ``ask``. Raises its error; after a time-out, a repetition may ask another controller. By
    itself ``client`` would wait for the controller that it knows, which may have died (librdkafka 2.16)."""
    try:
        return ask()
    except KafkaException as error:
        if code_of(error) == KafkaError._TIMED_OUT:
            with suppress(KafkaException):  # no broker answers: ``error`` is raised
                refresh_leaders(client, _CONTROLLER_S)
        raise
