"""Describes an error that ended an actor's work, and asks the user's handler about it."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterable

from structlog.stdlib import BoundLogger

from penstock.common.errors import RecordError, StateStoreCorruptError, StateStoreDiskError, StreamsError
from penstock.common.handlers import UncaughtExceptionHandler, UncaughtExceptionResponse

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def is_of_the_disk(error: BaseException) -> bool:
    """Returns True if the disk below ``state.dir`` is the cause: it is full, read-only or broken."""
    return isinstance(error, StateStoreDiskError) or (isinstance(error, OSError) and error.errno in _OF_THE_DISK)


class UncaughtErrors:
    """Asks the uncaught exception handler, once, in the actor that failed. Without a handler the answer is Kafka
    Streams' default."""

    def __init__(self, handler: UncaughtExceptionHandler | None, log: BoundLogger) -> None:
        self.response = UncaughtExceptionResponse.SHUTDOWN_CLIENT
        self.disk_failed = False
        """True if one of the errors is of the disk. Then another node may work, whatever the response is."""
        self._handler = handler
        self._log = log

    def handle(self, error: BaseException) -> str:
        """Set ``response`` to the answer to ``error``. The handler gets only the first error. Returns the text to
        report about the handler itself, after the error: empty if it has answered.

        It is not asked about stores that can be restored, as in Kafka Streams: the actor's successor restores them."""
        self.disk_failed = self.disk_failed or is_of_the_disk(error)
        handler, self._handler = self._handler, None
        if isinstance(error, StateStoreCorruptError) and error.restorable:
            self.response = UncaughtExceptionResponse.REPLACE_ACTOR
            return ""
        if handler is None:
            return ""
        try:
            answer = handler(error)
        except Exception as problem:  # a user's function may raise anything
            text = describe_error(problem)
            self._log.error("uncaught exception handler failed, shutting down the client", error=text)
            return f"\nThe uncaught exception handler failed, too: {type(problem).__name__}: {problem}"
        if isinstance(answer, UncaughtExceptionResponse):
            self.response = answer
            return ""
        allowed = [f"{each}" for each in UncaughtExceptionResponse]
        self._log.error(
            "uncaught exception handler gave no answer, shutting down the client", answer=answer, allowed=allowed
        )
        return f"\nThe uncaught exception handler gave no answer, but {answer!r}: return one of {', '.join(allowed)}"


def describe_error(error: BaseException) -> str:
    """Returns a line that names the error and its record, with the traceback of an exception from the user's code, or
    of an unexpected error."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__ if isinstance(error, StreamsError) else error
    if cause is None or (isinstance(cause, StreamsError) and not isinstance(error, RecordError)):
        return text
    return text + "\n" + "".join(traceback.format_exception(cause)).rstrip()


def close_all(closing: Iterable[Callable[[], None]], log: BoundLogger) -> None:
    """Call all of these, whatever one of them raises."""
    for close in closing:
        try:
            close()
        except Exception as problem:
            log.error("closing failed", error=describe_error(problem))
