"""Long operations of the stream loop, cut into steps: between two of them it answers queries.

A step is a generator's ``yield``: the seconds the loop may sleep (and answer queries) before it goes on; 0 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.actors.clock import Clock
from penstock.common.errors import BrokerUnreachableError
from penstock.common.log import logger

T = TypeVar("T")
Steps = Generator[float, None, T]

PATIENCE_S = 120.0
"""So long may the broker be away before an actor gives up."""
_RETRY_S = 0.2


def patiently(call: Callable[[], T], clock: Clock) -> Steps[T]:
    """The result of ``call``, which asks the broker; asked again while none answers, but no longer than PATIENCE_S."""
    deadline = clock.monotonic_s() + PATIENCE_S
    while True:
        try:
            return call()
        except BrokerUnreachableError as error:
            if clock.monotonic_s() >= deadline:
                raise
            logger("penstock.actors").warning("the broker does not answer, asking again", error=str(error))
        yield _RETRY_S
