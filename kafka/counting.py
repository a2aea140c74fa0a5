"""What goes out by one sink, counted: in Python, for producers that are not compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from penstock.common.measures import LatencyCounts, Sent
from penstock.common.records import SENT_NOW, Headers
from penstock.kafka.contracts import CountingSender

RECORD_OVERHEAD = 8 + 8 + 4
"""Bytes of a record's timestamp, offset and partition, which Kafka Streams counts, too, beside the topic's name."""


class PlainCountingSender(CountingSender):
    """:class:`~penstock.kafka.contracts.CountingSender` around any ``send``."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self._send = send
        self._records = 0
        self._bytes = 0
        self._latencies = LatencyCounts()

    @override
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        self._send(topic, key, value, timestamp, headers, partition)
        self._records += 1
        self._bytes += len(key or b"") + len(value or b"") + len(topic) + RECORD_OVERHEAD
        if headers:
            self._bytes += sum(len(name) + len(given or b"") for name, given in headers)
        if timestamp != SENT_NOW:
            self._latencies.add(int(time.time() * 1000) - timestamp)

    @override
    def take(self) -> Sent:
        return self._latencies.take(self._records, self._bytes)
