"""Threads for plain functions that call out. They are daemons: one that never returns keeps no process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

_MOST_THREADS = 256
_MOST_LOST = 1000


class CallThreads:
    """Runs functions in up to ``most`` threads, which are made as they are needed.

    A thread that is :meth:`lost` in a call that does not return no longer counts, so another may take its place. It
    ends when it does return. If a thousand are lost, functions wait until one returns.
    """

    def __init__(self, most: int = _MOST_THREADS) -> None:
        self._most = most
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._idle = self._queued = 0
        self.lost_threads = 0
        """Threads in calls that were given up, and have not returned."""

    @property
    def _room(self) -> int:
        """Number of threads that there may be."""
        return self._most + min(self.lost_threads, _MOST_LOST)

    def run(self, function: Callable[[], None]) -> None:
        """Have a thread call ``function``, which raises nothing."""
        with self._lock:
            self._waiting.put(function)
            self._queued += 1
            if self._queued <= self._idle or self._threads >= self._room:
                return
            self._threads += 1
            self._idle += 1
        try:
            threading.Thread(target=self._work, name="penstock-call", daemon=True).start()
        except RuntimeError:  # the system has no more threads for this process: the function waits for another one
            with self._lock:
                self._threads -= 1
                self._idle -= 1

    def lost(self) -> None:
        """Note that a call that runs was given up: its thread may never come back."""
        with self._lock:
            self.lost_threads += 1

    def found(self) -> None:
        """Note that a call that was given up has returned."""
        with self._lock:
            self.lost_threads -= 1

    def close(self) -> None:
        """End the threads that wait; those in a call end after it."""
        with self._lock:
            self._most = 0
            for _ in range(self._threads):
                self._waiting.put(None)

    def _work(self) -> None:
        while (function := self._waiting.get()) is not None:
            with self._lock:
                self._idle -= 1
                self._queued -= 1
            function()
            with self._lock:
                if self._threads > self._room:
                    self._threads -= 1
                    return
                self._idle += 1
