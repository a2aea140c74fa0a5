"""Runs the calls of the tasks of one actor: coroutines in one event loop, plain functions in threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from penstock.actors.calls.call_threads import CallThreads
from penstock.common.calls_at_once import is_awaited, is_remote
from penstock.tasks.contracts import Call, CallRunner, Finished

_END_WITHIN_S = 1.0


class CallHost(Protocol):
    """Makes the runners of tasks. ``wake`` is called, from any thread, when a call has ended."""

    def runner(self) -> CallRunner:
        """Returns the runner of a task."""

    def close(self) -> None:
        """Give up all calls, and end the threads."""


class LiveCalls(CallHost):
    """The calls of an actor. Nothing is started before the first call."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.threads = CallThreads()

    def runner(self) -> CallRunner:
        """Returns the runner of a task."""
        return _LiveRunner(self, self._wake)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which coroutines run. Any thread may ask for it."""
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(loop,), name="penstock-calls", daemon=True).start()
                if self._closed:  # a call that nobody waits for any more has returned an awaitable
                    asyncio.run_coroutine_threadsafe(_end(loop), loop)
            return self._loop

    def close(self) -> None:
        """End the event loop and the threads. It does not wait for calls that still run."""
        self.threads.close()
        with self._lock:
            self._closed = True
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(_end(self._loop), self._loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        while True:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                # A task that a call has begun raised it: to asyncio that ends the loop, and with it all calls.
                loop.call_exception_handler({"message": "a task of a call out has raised", "exception": error})
            else:
                return
    finally:
        loop.close()


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_END_WITHIN_S)
    loop.stop()


_AWAITED, _THREAD = 0, 1


def _failed(call: Call, error: BaseException) -> Finished:
    """A SystemExit ends no actor, but its call."""
    return Finished(
        call, None, error if isinstance(error, Exception) else RuntimeError(f"the call ended with {error!r}")
    )


def _discard(result: Awaitable[Any]) -> None:
    if isinstance(result, Coroutine):
        result.close()


class _LiveRunner:
    """The runner of one task."""

    def __init__(self, host: LiveCalls, wake: Callable[[], None]) -> None:
        self._host = host
        self._wake = wake
        self._woken = False
        self._closed = False
        self._lock = threading.Lock()
        self._done: deque[Finished] = deque()
        self._uses_loop = False
        self._tasks: dict[Call, asyncio.Task[Any]] = {}
        self._in_threads: dict[Call, bool] = {}  # True: it has begun
        self._given_up: set[Call] = set()  # of those in threads
        self._dropped: set[Call] = set()
        self._kinds: dict[int, int] = {}

    # ---- in the task's thread ----

    def start(self, calls: Sequence[Call]) -> None:
        awaited = []
        for call in calls:
            if self._is_awaited(call):
                awaited.append(call)
            else:
                self._in_threads[call] = False
                self._host.threads.run(partial(self._run_in_thread, call))
        if awaited:
            self._uses_loop = True
            self._soon(self._begin, awaited)

    def _is_awaited(self, call: Call) -> bool:
        function = call.function
        kind = self._kinds.get(id(function))
        if kind is None:  # functions are those of operators, which live as long as the task
            awaited = is_remote(function) or is_awaited(function)
            kind = self._kinds[id(function)] = _AWAITED if awaited else _THREAD
        return kind == _AWAITED

    def cancel(self, calls: Iterable[Call]) -> None:
        for call in calls:
            with self._lock:
                begun = self._in_threads.get(call)
                if begun:
                    self._given_up.add(call)
                    self._host.threads.lost()
                elif begun is not None:
                    del self._in_threads[call]
                    call.arguments = ()  # it stays among those that wait for a thread
            if begun is None:
                self._dropped.add(call)
                self._soon(self._cancel, call)

    def finished(self) -> Sequence[Finished]:
        self._woken = False  # first: a call that ends while these are taken wakes the loop again
        done = self._done
        return [done.popleft() for _ in range(len(done))]

    def close(self) -> None:
        self._closed = True
        self.cancel([*self._in_threads])
        if self._uses_loop:
            self._soon(self._cancel_all)

    def _soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have the event loop call ``function``."""
        with suppress(RuntimeError):  # the actor has ended, and its event loop is closed
            self._host.loop.call_soon_threadsafe(function, *arguments)

    # ---- in the event loop ----

    def _begin(self, calls: Sequence[Call]) -> None:
        loop = asyncio.get_running_loop()
        for call in calls:
            if self._closed or call in self._dropped:  # it was given up while another call kept the event loop busy
                continue
            try:
                result = call.function(*call.arguments)
            except BaseException as error:
                self._ended(_failed(call, error))
            else:
                self._tasks[call] = loop.create_task(self._await(call, result))

    async def _await(self, call: Call, result: Awaitable[Any]) -> None:
        try:
            finished = Finished(call, await result, None)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            finished = _failed(call, error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                return
            finished = Finished(call, None, RuntimeError("the call was cancelled by its own function"))
        finally:
            self._tasks.pop(call, None)
        self._ended(finished)

    def _cancel(self, call: Call) -> None:
        self._dropped.discard(call)
        if (task := self._tasks.get(call)) is not None:
            task.cancel()

    def _cancel_all(self) -> None:
        for call in list(self._tasks):
            self._cancel(call)

    # ---- in a thread of its own ----

    def _run_in_thread(self, call: Call) -> None:
        with self._lock:
            if call not in self._in_threads:  # given up before it has begun
                return
            self._in_threads[call] = True
        try:
            result = call.function(*call.arguments)
        except BaseException as error:
            finished = _failed(call, error)
        else:
            if hasattr(type(result), "__await__"):
                self._uses_loop = True
                self._soon(self._begin_awaiting, call, result)
                return
            finished = Finished(call, result, None)
        self._leave_thread(call)
        self._ended(finished)

    def _leave_thread(self, call: Call) -> bool:
        """Returns False if the call was given up meanwhile."""
        with self._lock:
            del self._in_threads[call]
            if call not in self._given_up:
                return True
            self._given_up.discard(call)
            self._host.threads.found()
            return False

    def _begin_awaiting(self, call: Call, result: Awaitable[Any]) -> None:
        if not self._leave_thread(call) or self._closed:
            _discard(result)
            return
        self._tasks[call] = asyncio.get_running_loop().create_task(self._await(call, result))

    # ---- in any thread ----

    def _ended(self, finished: Finished) -> None:
        if self._closed:
            return
        self._done.append(finished)
        if not self._woken:
            self._woken = True
            self._wake()
