"""Disturbs a Kafka cluster and a group from outside, to test that an application survives it."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.common.errors import BrokerUnreachableError
from penstock.kafka.settings import admin_settings, broker_errors, member_settings

_ANSWER_S = 15.0
_POLL_S = 0.1


def elect_preferred_leaders(address: str) -> int:
    """Have each partition led by its preferred broker, if that is in sync. Returns the number of partitions whose
    leader changed. Raises BrokerUnreachableError."""
    client = AdminClient(admin_settings(address, {}))  # it must live until the answer arrives
    # No ``request_timeout``: confluent-kafka 2.16.1 documents it, and raises SystemError for it.
    answered = client.elect_leaders(ElectionType.PREFERRED, None)
    found: dict[object, KafkaException | KafkaError | None]
    try:
        with broker_errors("elect leaders", address):
            found = answered.result(_ANSWER_S)
    except TimeoutError as error:
        raise BrokerUnreachableError(f"no broker answers at {address}: leaders cannot be elected") from error
    return sum(error is None for error in found.values())


def join_idle(address: str, group: str, topics: list[str], seconds: float, hurry: threading.Event) -> int:
    """Join ``group`` without reading or committing, and leave after ``seconds``, or when ``hurry`` is set. Returns the
    largest number of partitions that it was assigned at a time."""
    settings = member_settings(address, group, "", {})
    del settings["group.instance.id"]  # a static member would stay in the group when it leaves
    client = Consumer(settings)
    most = 0

    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        nonlocal most
        consumer.assign([])
        most = max(most, len(partitions))

    try:
        client.subscribe(topics, on_assign=assigned)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not hurry.is_set():
            client.poll(_POLL_S)
    finally:
        client.close()
    return most
