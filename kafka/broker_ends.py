"""Asks for the ends of partitions, beside a consumer that may be stuck (``fetch_watch.py`` says how)."""

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
    """Asks for ends beside the consumer, by a client of its own: the consumer's may be what is stuck.

    For a reader of committed records they are the last stable offsets: an open transaction is nothing to wait for.
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
        """True if a question was asked whose answer was not taken."""
        return self._asking is not None

    def ask(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to ask, in a thread. Once at a time."""
        self._ends = {}
        self._asking = threading.Thread(target=self._ask, args=(list(partitions),), name="broker-ends", daemon=True)
        self._asking.start()

    def take(self) -> dict[TopicPartition, int] | None:
        """Returns the answer, without ends that the broker did not report; None while it is waited for."""
        if self._asking is None or self._asking.is_alive():
            return None
        self._asking = None
        return self._ends

    def close(self) -> None:
        """Ask no more."""
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
            # A client that did not get all has leaders that have passed, or is stuck itself: a new one asks next time.
            if len(self._ends) < len(partitions):
                self._client = None
