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
_LOG_EVERY_S = 10.0


def retry_while_unavailable(call: Callable[[], T], clock: Clock, patience_s: float = PATIENCE_S) -> Steps[T]:
    """The result of ``call``; tried again, for so long, while no broker answers or another process has stores."""
    deadline = clock.monotonic_s() + patience_s
    log_at = clock.monotonic_s()
    while True:
        try:
            return call()
        except (BrokerUnreachableError, StateStoreLockedError) as error:
            if clock.monotonic_s() >= deadline:
                raise
            if clock.monotonic_s() >= log_at:
                log_at = clock.monotonic_s() + _LOG_EVERY_S
                logger(__name__).warning("retriable error, retrying", error=str(error))
        yield _RETRY_S
