"""Long operations of the stream loop, divided into steps: between two steps the loop answers queries.

A *round* of the loop takes a *slice*, about 2 ms, of each kind of work. A *job* is a long operation: a generator of
*steps*. Each step yields the seconds that the loop may sleep (and answer queries) before the operation continues. 0
means that there is work to do. Above 0, it waits for an answer of a broker, the coordinator, or another process. The
actor reports that to the coordinator (``ActorStatus.waits``), which does not end the actor for waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.actors.clock import Clock
from penstock.common.errors import BrokerUnreachableError, RetriableError, StateStoreLockedError
from penstock.common.log import logger
from penstock.kafka.contracts import UnknownTopicError

T = TypeVar("T")
Steps = Generator[float, None, T]

PATIENCE_S = 120.0
"""Seconds after which the actor gives up while another process has the stores of a task (the coordinator ends a process
that does not answer within 45 s), or while the brokers that answer do not know a topic. If no broker answers, the actor
waits without limit."""
SOON_S = 0.0005
"""Seconds to wait for an answer that may arrive at any moment."""
_RETRY_S = 0.2
_LOCK_IS_ORDINARY_S = 5.0
"""Seconds that a moving task may need to close its stores, for which another actor of the node waits."""


class WaitLog:
    """Logs one wait: once that it lasts, and once that it is over, however many attempts are made."""

    def __init__(self, what: str, over: str, clock: Clock) -> None:
        self._what = what
        self._over = over
        self._clock = clock
        self._begun_s = clock.monotonic_s()
        self._logged = False

    def continues(self, error: Exception) -> None:
        """Note that an attempt has failed."""
        ordinary = isinstance(error, StateStoreLockedError) and self._waited_s() < _LOCK_IS_ORDINARY_S
        if not self._logged and not ordinary:
            self._logged = True
            logger(__name__).warning(f"{self._what}, retrying", error=str(error))

    def is_over(self) -> None:
        """Note that an attempt has succeeded."""
        if self._logged:
            logger(__name__).info(self._over, waited_s=round(self._waited_s(), 1))

    def _waited_s(self) -> float:
        return self._clock.monotonic_s() - self._begun_s


def never() -> bool:
    """Returns False: nothing supersedes the wait."""
    return False


def retry_while_unavailable(
    call: Callable[[], T], clock: Clock, is_superseded: Callable[[], bool] = never
) -> Steps[T | None]:
    """Returns the result of ``call``. Tries again while no broker or schema registry answers, without limit, and for
    PATIENCE_S while another process has the stores or brokers do not know a topic. Returns None, after at least one
    attempt, if ``is_superseded``: the next order to the actor then decides about the operation."""
    wait = WaitLog("task is waiting for the broker, a schema registry or its stores", "task no longer waits", clock)
    limited_since_s: float | None = None
    while True:
        try:
            found = call()
        except (BrokerUnreachableError, RetriableError, StateStoreLockedError) as error:
            if isinstance(error, StateStoreLockedError | UnknownTopicError):
                now_s = clock.monotonic_s()
                limited_since_s = now_s if limited_since_s is None else limited_since_s
                if now_s - limited_since_s >= PATIENCE_S:
                    raise
            else:
                limited_since_s = None
            wait.continues(error)
        else:
            wait.is_over()
            return found
        if is_superseded():
            return None
        yield _RETRY_S
