"""What a task asks of its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.common.records import Headers


class Send(Protocol):
    """:meth:`RecordCollector.send`, or what does the same and something more."""

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
        """One record."""


SenderOf = Callable[[str, str], Send]
"""How a sink sends, by the name of its node and the topic: for a host that counts what each sends."""


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
        """One record; partition −1 is Kafka's default (murmur2 of the key), timestamp ``SENT_NOW`` the moment's."""

    def partitions(self, topic: str) -> int:
        """How many partitions ``topic`` has: only sinks ask that choose partitions themselves."""
