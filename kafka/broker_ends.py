"""Asks for the ends of partitions independently of a consumer that may be stuck (see ``fetch_watch.py``)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin import AdminClient

from penstock.common.ids import TopicPartition
from penstock.kafka.admin import LATEST
from penstock.kafka.answers import ANSWER_TIMEOUT_S
from penstock.kafka.leaders import checked_offset
from penstock.kafka.settings import REQUEST_TIMEOUT_S, admin_settings


class BrokerEnds:
    """Asks for ends with a client of its own, since the consumer's client may be stuck.

    For a reader of committed records the ends are the last stable offsets: it need not wait for an open transaction.
    """

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, Any]) -> None:
        self._settings = admin_settings(bootstrap_servers, overrides)
        committed = overrides.get("isolation.level") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        self._client: AdminClient | None = None
        self._asking: threading.Thread | None = None
        self._ends: dict[TopicPartition, int] = {}

    @property
    def asked(self) -> bool:
        """True if there is a request whose answer was not taken."""
        return self._asking is not None

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to ask, in a thread. Only one request at a time."""
        self._ends = {}
        self._asking = threading.Thread(target=self._ask, args=(list(partitions),), name="broker-ends", daemon=True)
        self._asking.start()

    def take(self) -> dict[TopicPartition, int] | None:
        """Returns the answer, without ends that the broker did not report; None until it has arrived."""
        if self._asking is None or self._asking.is_alive():
            return None
        self._asking = None
        return self._ends

    def close(self) -> None:
        """Release the client. Call nothing afterwards."""
        self._client = None

    def _ask(self, partitions: list[TopicPartition]) -> None:
        try:
            if self._client is None:
                self._client = AdminClient(self._settings)
            answers = self._client.list_offsets(
                {Tpo(*tp): LATEST for tp in partitions},
                isolation_level=self._isolation,
                request_timeout=REQUEST_TIMEOUT_S,
            )
            answered, _ = wait(answers.values(), ANSWER_TIMEOUT_S)
            for at, answer in answers.items():
                if answer in answered:
                    with suppress(KafkaException):
                        self._ends[TopicPartition(at.topic, at.partition)] = checked_offset(answer.result().offset)
        finally:
            # A client that did not get all ends has outdated leaders, or is stuck: the next request uses a new one.
            if len(self._ends) < len(partitions):
                self._client = None
