"""Long operations of the stream loop, cut into steps: between two of them it answers queries.

A step is a generator's ``yield``: the seconds the loop may sleep (and answer queries) before it goes on; 0 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.actors.clock import Clock
from penstock.common.errors import BrokerUnreachableError, StateStoreLockedError
from penstock.common.log import logger

T = TypeVar("T")
Steps = Generator[float, None, T]

PATIENCE_S = 120.0
"""So long may the broker, or another process with the task's stores, keep an actor waiting before it gives up."""
_RETRY_S = 0.2
_LOCK_IS_ORDINARY_S = 5.0
"""So long a task that moves may need to let go of its stores, which another actor of the node waits for."""


class WaitLog:
    """What is said of one wait: once that it lasts, and once that it is over, however often is tried in between."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._begun_s = clock.monotonic_s()
        self._told = False

    def goes_on(self, error: Exception) -> None:
        """An attempt has failed."""
        ordinary = isinstance(error, StateStoreLockedError) and self._waited_s() < _LOCK_IS_ORDINARY_S
        if not self._told and not ordinary:
            self._told = True
            logger(__name__).warning(f"{self._what}: trying again until it can be done", error=str(error))

    def is_over(self) -> None:
        """An attempt has succeeded."""
        if self._told:
            logger(__name__).info(f"{self._what}: done", waited_s=round(self._waited_s(), 1))

    def _waited_s(self) -> float:
        return self._clock.monotonic_s() - self._begun_s


def retry_while_unavailable(call: Callable[[], T], clock: Clock, patience_s: float = PATIENCE_S) -> Steps[T]:
    """The result of ``call``; tried again, for so long, while no broker answers or another process has stores."""
    deadline = clock.monotonic_s() + patience_s
    wait = WaitLog("a task waits for the broker, or for its stores", clock)
    while True:
        try:
            found = call()
        except (BrokerUnreachableError, StateStoreLockedError) as error:
            if clock.monotonic_s() >= deadline:
                raise
            wait.goes_on(error)
        else:
            wait.is_over()
            return found
        yield _RETRY_S
