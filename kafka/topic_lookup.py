"""Looks up the numbers of partitions of the topics that a producer writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from penstock.kafka.refusals import require_partitions
from penstock.kafka.settings import broker_errors

CREATED_WITHIN_S = 2.0
"""Seconds within which a broker with ``auto.create.topics.enable`` knows a topic that it creates because a client asked
for it."""
_AGAIN_S = 0.1

Ask = Callable[[str], int]


class TopicLookup:
    """The topics that one producer has asked for. It asks once for each topic that exists.

    ``ask`` returns the number of partitions of a topic, 0 if the broker does not know it. It is given with each call: a
    reference to it would keep its producer and the producer's threads alive. For one thread.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._address = bootstrap_servers
        self._counts: dict[str, int] = {}
        self._wait_until_s: dict[str, float] = {}

    def unknown(self, topics: Iterable[str], ask: Ask) -> frozenset[str]:
        """Ask for each of ``topics`` and return those that the broker does not know now. Does not wait for them."""
        return frozenset(topic for topic in topics if not self._count(topic, ask))

    def partitions(self, topic: str, ask: Ask) -> int:
        """Returns the number of partitions of ``topic``. Waits for an unknown topic until CREATED_WITHIN_S after the
        first request for it: so a missing topic holds its caller up once, not for each record. Raises
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
