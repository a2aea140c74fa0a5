"""Time as an argument, so that tests control the clock."""

from __future__ import annotations

import time
from typing import Protocol

from typing_extensions import override


class Clock(Protocol):
    """The clocks that a stream loop reads."""

    def wall_ms(self) -> int:
        """System time in ms since the epoch, for processors and wall-clock punctuators."""

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, for intervals and deadlines."""

    def thread_cpu_s(self) -> float:
        """Seconds of CPU time that the calling thread has used."""


class SystemClock(Clock):
    """The machine's clocks."""

    @override
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    @override
    def monotonic_s(self) -> float:
        return time.monotonic()

    @override
    def thread_cpu_s(self) -> float:
        return time.thread_time()
