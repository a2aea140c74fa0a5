"""Decides about topics that the broker does not know: for a moment, or because they are gone."""

from __future__ import annotations

import time

from confluent_kafka import Consumer

from penstock.common.errors import BrokerUnreachableError, MissingTopicError
from penstock.common.log import logger
from penstock.common.topics import has_internal_name
from penstock.kafka.settings import MISSING_TOPIC, REQUEST_TIMEOUT_S, broker_errors

_LOST = (
    "what it held is lost with it, so do not create it by hand. Restore it from a backup of Kafka, or run "
    "'penstock reset' to process all input again"
)
_PATIENCE_S = 30.0  # a broker that has just started may not know a topic for this long


def advice(topic: str) -> str:
    """Returns the advice for a topic that is gone."""
    return _LOST if has_internal_name(topic) else "create it again, or fix the topology"


class MissingTopics:
    """Waits before it reports a topic as missing: librdkafka reports an unknown topic once, and continues by itself
    when the broker knows it again."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._address = bootstrap_servers
        self._log = logger(__name__)
        self._deadlines: dict[str, float] = {}

    def note(self, topic: str, reason: str) -> None:
        """Note that the broker does not know ``topic``. May be called for each partition, and repeatedly."""
        if topic not in self._deadlines:
            self._log.warning("topic unknown to the broker", topic=topic, error=reason)
            self._deadlines[topic] = time.monotonic() + _PATIENCE_S

    def check(self, client: Consumer) -> None:
        """Ask for the topics whose time is up, or later again if no broker answers. Raises MissingTopicError for one
        that is still unknown."""
        if not self._deadlines:
            return
        now = time.monotonic()
        for topic in [topic for topic, deadline in self._deadlines.items() if now >= deadline]:
            try:
                with broker_errors(f"ask for topic {topic!r}", self._address):
                    found = client.list_topics(topic, REQUEST_TIMEOUT_S).topics[topic]
            except BrokerUnreachableError:
                self._deadlines[topic] = now + _PATIENCE_S
                continue
            if found.error is not None and found.error.code() in MISSING_TOPIC:
                raise MissingTopicError(f"topic {topic!r} does not exist any more: {advice(topic)}")
            del self._deadlines[topic]

    def keep(self, topics: set[str]) -> None:
        """Forget all other topics, which are not read any more."""
        for topic in self._deadlines.keys() - topics:
            del self._deadlines[topic]
