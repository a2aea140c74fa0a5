"""Runs calls to their end before the next record: for ``TopologyTestDriver``, and for the executors of Spark."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Ended(NamedTuple):
    call: Any
    result: Any
    error: Exception | None


class _Loop:
    """The event loop of the calls that a thread makes. All tasks of the thread have the same one, and so have all test
    drivers: a client that a module keeps belongs to the loop in which it was made."""

    def __init__(self) -> None:
        self.events = asyncio.new_event_loop()

    def __del__(self) -> None:
        self.events.close()


_OF_THREAD = threading.local()


def _loop() -> asyncio.AbstractEventLoop:
    held: _Loop | None = getattr(_OF_THREAD, "held", None)
    if held is None or held.events.is_closed():
        held = _OF_THREAD.held = _Loop()
    return held.events


class CallsAtOnce:
    """A :class:`~penstock.tasks.contracts.WaitingCallRunner`: :meth:`start` returns when the calls have ended or their
    time is over. Calls that are started together run together, if their results are awaitable.

    ``threads``: number of threads for plain functions; 0: they run in the caller's thread, one after the other, so that
    debuggers work and the order in a test is certain. ``waits``: True if pauses between tries take their time, and the
    clock is the system's. Otherwise only :meth:`wait_until` advances the clock, and it does not wait.
    """

    def __init__(self, threads: int = 0, *, waits: bool = False) -> None:
        self._threads = threads
        self._waits = waits
        self._now_ms = 0.0
        self._finished: list[_Ended] = []
        self._pool: ThreadPoolExecutor | None = None

    def now_ms(self) -> float:
        """Returns the time by the clock of the calls."""
        return time.monotonic() * 1000 if self._waits else self._now_ms

    def wait_until(self, due_ms: float) -> None:
        """Move the clock to this time, unless a call has ended."""
        if self._finished:
            return
        if due_ms == float("inf"):
            raise RuntimeError("a call waits for nothing that could happen")
        if self._waits:
            time.sleep(max(0.0, due_ms / 1000 - time.monotonic()))
        else:
            self._now_ms = max(self._now_ms, due_ms)

    def start(self, calls: Sequence[Any]) -> None:
        """Run these calls."""
        if self._threads:
            self._run(self._all(calls))
            return
        for call in calls:
            if is_awaited(call.function):
                self._run(self._all(calls))
                return
        for call in calls:
            self._call_here(call)

    def _call_here(self, call: Any) -> None:
        try:
            result = call.function(*call.arguments)
        except Exception as error:
            self._finished.append(_Ended(call, None, error))
            return
        if inspect.isawaitable(result):
            self._run(self._await(call, result))
        else:
            self._finished.append(_Ended(call, result, None))

    async def _all(self, calls: Sequence[Any]) -> None:
        await asyncio.gather(*(self._one(call) for call in calls))

    async def _one(self, call: Any) -> None:
        function = call.function
        if self._threads and not is_awaited(function):
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "penstock-calls")
            await self._await(call, asyncio.wrap_future(self._pool.submit(lambda: function(*call.arguments))))
            return
        try:
            result = function(*call.arguments)
        except Exception as error:
            self._finished.append(_Ended(call, None, error))
            return
        await self._end(call, result)

    async def _await(self, call: Any, awaitable: Any) -> None:
        future = asyncio.ensure_future(awaitable)
        done, _ = await asyncio.wait([future], timeout=call.within_ms / 1000)
        if not done:
            future.cancel()  # the task itself gives the call up when its time is over
            return
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            await self._end(call, future.result())
        elif isinstance(error, Exception):
            self._finished.append(_Ended(call, None, error))
        else:
            self._finished.append(_Ended(call, None, RuntimeError(f"the call ended with {error!r}")))

    async def _end(self, call: Any, result: Any) -> None:
        if inspect.isawaitable(result):
            await self._await(call, result)
        else:
            self._finished.append(_Ended(call, result, None))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        loop = _loop()
        if asyncio._get_running_loop() is None:
            loop.run_until_complete(work)
            return
        # A notebook, or an async test: its thread runs another event loop already.
        with ThreadPoolExecutor(1) as aside:
            aside.submit(loop.run_until_complete, work).result()

    def cancel(self, calls: Iterable[Any]) -> None:
        """Does nothing: no call runs between two calls of :meth:`start`."""

    def finished(self) -> Sequence[Any]:
        """Returns the calls that have ended since the last call of this method."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = None


def is_awaited(function: Callable[..., Any]) -> bool:
    """Returns True if a call of ``function`` is known to return at once, with an awaitable."""
    while hasattr(function, "func") and not inspect.iscoroutinefunction(function):
        function = function.func  # a partial
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def is_remote(function: Callable[..., Any]) -> bool:
    """Returns True if ``function`` starts a method of a Ray actor, and so returns at once."""
    return getattr(function, "__name__", "") == "remote" or hasattr(function, "remote")
