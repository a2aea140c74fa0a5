"""Counts the records and bytes that one sink sends: in Python, for producers that are not compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from penstock.common.measures import LatencyCounts, Sent
from penstock.common.records import SENT_NOW, Headers
from penstock.kafka.contracts import CountingSender

RECORD_OVERHEAD = 8 + 8 + 4
"""Bytes of a record's timestamp, offset and partition, which Kafka Streams counts, too, in addition to the topic's
name."""


_EXACT = 64
_EVERY = 8


class PlainCountingSender(CountingSender):
    """:class:`~penstock.kafka.contracts.CountingSender` around any ``send``.

    All records are counted, but reading the clock costs half as much as sending. So bytes and latencies are measured
    for the first 64 records after each :meth:`take`, and then for one in eight, which counts for the seven before it.
    """

    def __init__(self, send: Callable[..., Any]) -> None:
        self._send = send
        self._records = 0
        self._bytes = 0
        self._latencies = LatencyCounts()
        self._measured = 0
        self._exact_until = _EXACT
        self._next = 1

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
        if self._records >= self._next:
            self._measure(topic, key, value, timestamp, headers)

    def _measure(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers | None
    ) -> None:
        weight, self._measured = self._records - self._measured, self._records
        self._next = self._records + (1 if self._records < self._exact_until else _EVERY)
        size = len(key or b"") + len(value or b"") + len(topic) + RECORD_OVERHEAD
        if headers:
            size += sum(len(name) + len(given or b"") for name, given in headers)
        self._bytes += size * weight
        if timestamp != SENT_NOW:
            self._latencies.add(int(time.time() * 1000) - timestamp, weight)

    @override
    def take(self) -> Sent:
        self._exact_until, self._next = self._records + _EXACT, self._records + 1
        return self._latencies.take(self._records, self._bytes)
