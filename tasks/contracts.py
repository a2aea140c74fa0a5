"""The interfaces that a task needs from its host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

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


class Call:
    """One try of a call: ``function(*arguments)``, whose result may be awaitable. ``within_ms``: the time after which
    the task gives it up. ``owner`` is for the task's own use."""

    __slots__ = ("arguments", "function", "owner", "within_ms")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], within_ms: float, owner: Any) -> None:
        self.function = function
        self.arguments = arguments
        self.within_ms = within_ms
        self.owner = owner


class Finished(NamedTuple):
    """A try that has ended: with ``result``, or with ``error``."""

    call: Call
    result: Any
    error: Exception | None


class CallRunner(Protocol):
    """Runs the calls of one task. All methods are called from the task's thread, and none of them waits for a call,
    unless the host runs each call to its end at once."""

    def start(self, calls: Sequence[Call]) -> None:
        """Begin these calls. They run at the same time, as far as their functions can."""

    def cancel(self, calls: Iterable[Call]) -> None:
        """Give up these calls. If one of them ends nevertheless, the task ignores it."""

    def finished(self) -> Sequence[Finished]:
        """Returns the calls that have ended since the last call of this method, in the order in which they did."""

    def close(self) -> None:
        """Give up all calls: the task ends."""


class WaitingCallRunner(CallRunner, Protocol):
    """A runner that can wait, for a host that lets each call end before the next record."""

    def now_ms(self) -> float:
        """Returns the time by the clock of the task's calls."""

    def wait_until(self, due_ms: float) -> None:
        """Wait until this time, or until a call has ended."""
