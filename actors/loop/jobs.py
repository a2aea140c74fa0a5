"""The jobs of a loop other than records, done one after the other, and the callers that wait for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from penstock.actors.loop.mailbox import Mailbox
from penstock.actors.steps import Steps


class Jobs(deque[Steps[None]]):
    """The jobs that have not begun, in their order. :meth:`promise` may be called from any thread, the rest from the
    loop's."""

    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__()
        self._mailbox = mailbox
        self._confirmations: list[Future[None]] = []
        self.promised = 0
        """Number of these jobs that were queued by :meth:`promise`: a caller waits for the end of each."""

    def is_awaited(self) -> bool:
        """Returns True if a caller waits for the end of a job that has not begun."""
        return self.promised > 0

    def promise(self, job: Callable[[Future[None]], Steps[None]]) -> Future[None]:
        """Queue ``job``, which must resolve the future that it is given."""
        done: Future[None] = Future()

        def begin() -> None:
            self._confirmations = [other for other in self._confirmations if not other.done()] + [done]
            self.promised += 1
            self.append(keep())

        def keep() -> Steps[None]:
            self.promised -= 1
            yield from job(done)

        self._mailbox.ask(begin).add_done_callback(partial(reject, done))
        return done

    def reject(self, error: Exception, but: Future[None] | None = None) -> None:
        """Drop the jobs that have not begun, and fail the futures of all waiting callers, except ``but``."""
        self.clear()
        for waiting in self._confirmations:
            if not waiting.done() and waiting is not but:
                waiting.set_exception(error)


def reject(done: Future[Any], begun: Future[None]) -> None:
    """Fails ``done`` if the job that would resolve it could not be queued."""
    if error := begun.exception():
        done.set_exception(error)
