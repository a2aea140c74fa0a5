"""Calls out in virtual time: each takes its time, some fail, and some last longer than a task that moves waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.common.calls_at_once import CallsAtOnce
from penstock.tasks.contracts import Call, CallRunner, Finished

if TYPE_CHECKING:
    from tests.simulation.actor_process import ActorProcess

_FAILS = 0.1
_IS_LONG = 0.02
_LONGEST_S = 8.0
_ENDS_AFTER_ALL = 0.2
"""Share of the calls that were given up and end nevertheless."""


class SimulatedCalls:
    """The calls of the actor in ``process``."""

    def __init__(self, process: ActorProcess) -> None:
        self._process = process

    def runner(self) -> CallRunner:
        return _Runner(self._process)

    def close(self) -> None:
        """Does nothing: no thread runs."""


class _Runner:
    def __init__(self, process: ActorProcess) -> None:
        self._process = process
        self._timers: dict[Call, asyncio.TimerHandle] = {}
        self._finished: list[Finished] = []

    def start(self, calls: Sequence[Call]) -> None:
        loop, rng = asyncio.get_running_loop(), self._process.rng
        for call in calls:
            lasts_s = rng.uniform(0.0, _LONGEST_S if rng.random() < _IS_LONG else 0.1)
            self._timers[call] = loop.call_later(lasts_s, self._end, call, rng.random() < _FAILS)

    def _end(self, call: Call, fails: bool) -> None:
        self._timers.pop(call, None)
        if fails:
            self._finished.append(Finished(call, None, OSError("the service is down")))
        else:
            self._finished.append(Finished(call, call.function(*call.arguments), None))

    def cancel(self, calls: Iterable[Call]) -> None:
        for call in calls:
            timer = self._timers.pop(call, None)
            if timer is not None and self._process.rng.random() >= _ENDS_AFTER_ALL:
                timer.cancel()

    def finished(self) -> Sequence[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        self.cancel(list(self._timers))


class CallsWithoutTime:
    """Calls that end at once, for the host without faults."""

    def __init__(self, wake: Callable[[], None]) -> None: ...

    def runner(self) -> CallRunner:
        return _AtOnce()

    def close(self) -> None:
        """Does nothing: no thread runs."""


class _AtOnce(CallsAtOnce):
    """Not the class itself: its tasks would wait for each call, and keep an order of their own."""
