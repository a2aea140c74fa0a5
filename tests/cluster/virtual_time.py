"""An event loop whose clock jumps to the next timer: hours of timers in no time, and always in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class _Call:
    """A callback that is due, unless it is cancelled before: all that ``asyncio`` asks of a handle."""

    __slots__ = ("args", "callback", "gone", "time")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], time: float) -> None:
        self.callback, self.args, self.time, self.gone = callback, args, time, False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self.time


class VirtualTimeLoop:
    """A loop for code that waits only by ``asyncio``'s own means: no threads, no sockets, no context variables.

    A simulation spent half of its time in ``asyncio``'s own loop, which looks for sockets at each turn. An error of a
    callback ends this loop.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._calls = 0
        self._ready: deque[_Call] = deque()
        self._later: list[tuple[float, int, _Call]] = []
        self._loop: Any = self  # to asyncio

    # The methods that asyncio's tasks, futures and timers call: far fewer than its own class wants to be overridden.

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        call = _Call(callback, args, self._now)
        self._ready.append(call)
        return call

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self._now + delay, callback, *args)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        call = _Call(callback, args, max(when, self._now))
        self._calls += 1
        heappush(self._later, (call.time, self._calls, call))
        return call

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._loop)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self._loop)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self._loop

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        logging.getLogger("asyncio").error(context["message"], exc_info=context.get("exception"))

    def run_until_complete(self, future: Any) -> Any:
        """Returns the result of the task, or coroutine. Raises RuntimeError if nothing would ever happen again."""
        asyncio._set_running_loop(self._loop)
        try:
            awaited = asyncio.ensure_future(future, loop=self._loop)
            self._run_until(awaited)
            return awaited.result()
        finally:
            asyncio._set_running_loop(None)

    def _run_until(self, awaited: asyncio.Future[Any]) -> None:
        ready, later = self._ready, self._later
        while not awaited.done():
            while ready:
                call = ready.popleft()
                if not call.gone:
                    call.callback(*call.args)
            if not later:
                if awaited.done():
                    return
                raise RuntimeError("everything waits for something that will not come")
            self._now, _, call = heappop(later)
            ready.append(call)

    def close(self) -> None:
        """Cancel all tasks that are left, and those that they begin as they end, and let them end."""
        while left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self.run_until_complete(_end(left))


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of ``work``, without waiting a moment."""
    loop = VirtualTimeLoop()
    try:
        result: T = loop.run_until_complete(work)
        return result
    finally:
        loop.close()
