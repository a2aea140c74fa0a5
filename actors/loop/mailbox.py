"""Passes commands of other threads to a loop, and returns their results as futures."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Mailbox:
    """Commands run in the thread that calls :meth:`serve`; the other methods may be called from any thread.

    ``rejection`` returns the error for commands that arrive after :meth:`close`.
    """

    def __init__(self, rejection: Callable[[], Exception]) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._rejection = rejection
        self._shut = False
        self.waited_s = 0.0
        """Total seconds that :meth:`serve` has waited."""
        self.idle_s = 0.0
        """Total seconds that :meth:`serve` has waited because there was nothing to do."""

    def ask(self, function: Callable[[], T]) -> Future[T]:
        """Have the loop call ``function``. Returns a future of its result or its exception."""
        answer: Future[T] = Future()
        self._queue.put((function, answer))
        if self._shut:
            self.serve(0.0)  # the loop will not
        return answer

    def wake(self) -> None:
        """Let ``serve`` return."""
        self._queue.put(None)

    @property
    def empty(self) -> bool:
        """True if no command waits."""
        return self._queue.empty()

    def serve(self, wait_s: float, idle: bool = False) -> None:
        """Wait at most ``wait_s`` for a command, then run all that are queued. ``idle``: nothing else is under way."""
        try:
            if wait_s > 0:
                self._run(self._next(wait_s, idle))
            while True:
                self._run(self._queue.get_nowait())
        except Empty:
            return

    def _next(self, wait_s: float, idle: bool) -> tuple[Callable[[], Any], Future[Any]] | None:
        begun_s = time.monotonic()
        try:
            return self._queue.get(timeout=wait_s)
        finally:
            waited_s = time.monotonic() - begun_s
            self.waited_s += waited_s
            if idle:
                self.idle_s += waited_s

    def close(self) -> None:
        """Reject all commands, those that wait and later ones."""
        self._shut = True
        self.serve(0.0)

    def _run(self, command: tuple[Callable[[], Any], Future[Any]] | None) -> None:
        if command is None:
            return
        function, answer = command
        if not answer.set_running_or_notify_cancel():
            return
        try:
            if self._shut:
                raise self._rejection()
            answer.set_result(function())
        except Exception as error:
            answer.set_exception(error)
