"""The interfaces that a task needs from its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.common.records import Headers


class Send(Protocol):
    """The signature of :meth:`RecordCollector.send`, also of functions that do more."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
        /,
    ) -> None:
        """Send one record."""


SenderOf = Callable[[str, str], Send]
"""Returns a sink's send function, by the name of its node and the topic: for a host that counts what each sends."""


class RecordCollector(Protocol):
    """Takes what sinks and changelogs write, in order. Mirrors ``RecordCollector``."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Send one record. Partition −1: Kafka's default (murmur2 of the key). Timestamp ``SENT_NOW``: the call's."""

    def partitions(self, topic: str) -> int:
        """Returns the number of partitions of ``topic``. Only sinks that choose partitions themselves ask for it."""
