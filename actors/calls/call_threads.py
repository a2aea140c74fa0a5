"""Threads for plain functions that call out. They are daemons: one that never returns keeps no process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

_MOST_THREADS = 256


class CallThreads:
    """Runs functions in up to ``most`` threads, which are made as they are needed.

    A thread that is :meth:`lost` in a call that does not return counts no longer; another may take its place. It ends
    when it does return.
    """

    def __init__(self, most: int = _MOST_THREADS) -> None:
        self._most = most
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._idle = self._queued = 0
        self.lost_threads = 0
        """Threads in calls that were given up, and have not returned."""

    def run(self, function: Callable[[], None]) -> None:
        """Have a thread call ``function``, which raises nothing."""
        with self._lock:
            self._waiting.put(function)
            self._queued += 1
            if self._queued <= self._idle or self._threads >= self._most + self.lost_threads:
                return
            self._threads += 1
            self._idle += 1
        threading.Thread(target=self._work, name="penstock-call", daemon=True).start()

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
                if self._threads > self._most + self.lost_threads:
                    self._threads -= 1
                    return
                self._idle += 1
