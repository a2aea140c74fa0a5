"""Clients of Kafka that die, or are interrupted, at a call chosen by a test: as a process that is killed with -9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.kafka.clients import KafkaClients
from penstock.testing.fake_clients import FakeClients

T = TypeVar("T")


class Killed(BaseException):
    """The process is no more. No code of penstock may catch it."""


class Calls:
    """Counts the calls of all clients of one process, or those of one name (``of``, such as ``admin.topics``).

    ``act`` is called at number ``at``: before the call is carried out, or behind it if ``afterwards``.
    """

    def __init__(
        self, at: int, act: Callable[[], None] | None = None, *, afterwards: bool = False, of: str = ""
    ) -> None:
        self.count = 0
        self.dead = False
        self._at = at
        self._act = act or self.kill
        self._afterwards = afterwards
        self._of = of

    def kill(self) -> None:
        """End the process: no later call has an effect."""
        self.dead = True
        raise Killed

    def make(self, name: str, call: Callable[[], T]) -> T:
        """Make a call, and act if it is its turn."""
        if self.dead:
            raise Killed
        self.count += self._of in ("", name)
        if self.count != self._at or self._of not in ("", name):
            return call()
        if not self._afterwards:
            self._act()
            return call()
        result = call()
        self._act()
        return result


class _Counted:
    """A client whose calls are counted."""

    def __init__(self, kind: str, client: Any, calls: Calls) -> None:
        self._kind = kind
        self._client = client
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._calls.make(f"{self._kind}.{name}", lambda: found(*given, **named))


class MortalClients:
    """The clients of one process, over those of the fake broker."""

    def __init__(self, clients: FakeClients, calls: Calls) -> None:
        self._clients = clients
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return lambda *given: _Counted(name, getattr(self._clients, name)(*given), self._calls)


def mortal(clients: FakeClients, calls: Calls) -> KafkaClients:
    """Returns the clients of a process whose calls are counted by ``calls``."""
    made: Any = MortalClients(clients, calls)
    return made  # type: ignore[no-any-return]
