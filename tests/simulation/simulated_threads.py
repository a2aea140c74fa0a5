"""Threads of a process in virtual time: only one runs at any moment, and each gives way where it waits.

Code that waits for object storage is written for threads. Here each of its calls runs in a thread of the machine, which
hands control back to the event loop for as long as it waits for the storage.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from typing_extensions import override


class _KilledError(BaseException):
    """The process of the thread has ended. No code of the thread catches it."""


class _Worker:
    """One call, in a thread of its own."""

    def __init__(self, threads: SimulatedThreads, done: Future[Any], call: Callable[[], Any]) -> None:
        self._threads, self._done, self._call = threads, done, call
        self._may_run, self._has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def go_on(self) -> None:
        """Run, from the thread of the event loop, up to the next wait or to the end."""
        self._may_run.release()
        self._has_stopped.acquire()

    def kill(self) -> None:
        self._killed = True
        self.go_on()

    def wait(self, seconds: float) -> None:
        """Wait, from the thread itself."""
        self._threads.later(self, seconds)
        self._stop()

    def _stop(self) -> None:
        self._has_stopped.release()
        self._may_run.acquire()
        if self._killed:
            raise _KilledError

    def _run(self) -> None:
        self._may_run.acquire()
        try:
            if not self._killed:
                self._done.set_result(self._call())
        except _KilledError:
            pass
        except Exception as error:
            self._done.set_exception(error)
        self._threads.ended(self)
        self._has_stopped.release()


_WORKERS: dict[threading.Thread, _Worker] = {}


def wait_in_thread(seconds: float) -> None:
    """Let virtual time pass if this is a simulated thread; nothing else in the thread of the event loop."""
    if (worker := _WORKERS.get(threading.current_thread())) is not None:
        worker.wait(seconds)


class SimulatedThreads(Executor):
    """The executor of one ``place``: a process that may be frozen until ``frozen_until``, and that may end."""

    def __init__(self, loop: Any, place: Any, at_once: int) -> None:
        self._loop, self._place, self._at_once = loop, place, at_once
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running: list[_Worker] = []
        self._is_dead = False

    @override
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._waiting.append((done, lambda: fn(*args, **kwargs)))
        self._begin()
        return done

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._at_once and not self._is_dead:
            worker = _Worker(self, *self._waiting.popleft())
            _WORKERS[worker.thread] = worker
            self._running.append(worker)
            worker.go_on()

    def later(self, worker: _Worker, seconds: float) -> None:
        self._loop.call_later(seconds, self._wake, worker)

    def _wake(self, worker: _Worker) -> None:
        if worker not in self._running:
            return
        frozen_s = getattr(self._place, "frozen_until", 0.0) - self._loop.time()
        if frozen_s > 0:
            self.later(worker, min(frozen_s, 1.0))
            return
        worker.go_on()
        self._begin()

    def ended(self, worker: _Worker) -> None:
        _WORKERS.pop(worker.thread, None)
        if worker in self._running:
            self._running.remove(worker)

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let calls under way come to their ends."""
        if cancel_futures:
            self._waiting.clear()

    def kill(self) -> None:
        """The process has ended: nothing runs any more."""
        self._is_dead = True
        self._waiting.clear()
        for worker in list(self._running):
            worker.kill()


class Processes:
    """Gives each process that makes an executor its own, and ends all of them with the process."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.at_work: Any = None
        """The process whose code runs now."""
        self._executors: dict[Any, list[SimulatedThreads]] = {}

    def executor(self, at_once: int = 1, *_: object) -> SimulatedThreads:
        """Replaces ``ThreadPoolExecutor``."""
        made = SimulatedThreads(self._loop, self.at_work, at_once)
        self._executors.setdefault(self.at_work, []).append(made)
        return made

    def end(self, process: Any) -> None:
        for executor in self._executors.pop(process, ()):
            executor.kill()

    def end_all(self) -> None:
        for process in list(self._executors):
            self.end(process)
