"""Virtual time for asyncio code that calls other threads, and the clocks that a stream loop reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.cluster.virtual_time import VirtualTimeLoop

BEGIN_MS = 1_000_000_000_000
"""The wall clock at the beginning: before the time stamp of every file, so that no local state seems to be old."""


class SimulatedLoop(VirtualTimeLoop):
    """Calls for another thread run at once, in the only thread there is."""

    def run_in_executor(self, _: object, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(function(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class VirtualClock:
    """:class:`~penstock.actors.clock.Clock` on the time of a loop."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return BEGIN_MS + int(self._loop.time() * 1000)

    def monotonic_s(self) -> float:
        return 1000.0 + self._loop.time()

    def thread_cpu_s(self) -> float:
        return self.monotonic_s()
