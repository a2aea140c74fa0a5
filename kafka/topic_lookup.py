"""The numbers of partitions of the topics that a producer writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from penstock.kafka.refusals import require_partitions
from penstock.kafka.settings import broker_errors

CREATED_WITHIN_S = 2.0
"""A broker with ``auto.create.topics.enable`` creates a topic when a client asks for it, and knows it a moment later:
within this time."""
_AGAIN_S = 0.1

Ask = Callable[[str], int]


class TopicLookup:
    """The topics that one producer has asked for. It asks once for each topic that there is.

    ``ask`` gives the number of partitions of a topic, 0 for one that the broker does not know. It comes with each call:
    kept, it would keep its producer alive, with the threads of that. One thread.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._address = bootstrap_servers
        self._counts: dict[str, int] = {}
        self._wait_until_s: dict[str, float] = {}

    def unknown(self, topics: Iterable[str], ask: Ask) -> frozenset[str]:
        """Ask for each of ``topics`` and return those that the broker does not know now. Does not wait for them."""
        return frozenset(topic for topic in topics if not self._count(topic, ask))

    def partitions(self, topic: str, ask: Ask) -> int:
        """The number of partitions of ``topic``. Waits for one that is unknown, until CREATED_WITHIN_S after the first
        question about it: so a topic that is missing holds its caller up once, not with each record. Raises
        MissingTopicError."""
        while not (count := self._count(topic, ask)) and time.monotonic() < self._wait_until_s[topic]:
            time.sleep(_AGAIN_S)
        return require_partitions(topic, count)

    def _count(self, topic: str, ask: Ask) -> int:
        count = self._counts.get(topic, 0)
        if not count:
            with broker_errors(f"ask for topic {topic!r}", self._address):
                count = ask(topic)
            self._wait_until_s.setdefault(topic, time.monotonic() + CREATED_WITHIN_S)
            if count:
                self._counts[topic] = count
        return count
