"""Waits for a serde that cannot answer now, in hosts whose clock does not move while they wait."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.common.errors import RetriableError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class Patience:
    """Waits 50 ms before the first further attempt, then twice as long each time, up to a second. After ``limit_s`` of
    waiting it raises what :attr:`over` makes of the error."""

    def __init__(
        self,
        limit_s: float,
        over: Callable[[RetriableError], Exception],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.over = over
        self._limit_s = limit_s
        self._sleep = sleep

    def wait(self, error: RetriableError, attempt: int) -> None:
        """Wait before attempt number 1, 2, …, or raise."""
        pauses = [min(_FIRST_PAUSE_S * 2**n, _LONGEST_PAUSE_S) for n in range(attempt)]
        if sum(pauses) > self._limit_s:
            raise self.over(error) from error
        self._sleep(pauses[-1])
