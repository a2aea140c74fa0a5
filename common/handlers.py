"""What to do when a record cannot be handled: a closed set of answers, as in Kafka Streams (KIP-161, KIP-1033)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from penstock.common.errors import RecordError


class HandlerResponse(Enum):
    """The answer of an exception handler."""

    RESUME = "resume"
    """Drop the record, count it in ``dropped-records-total``, go on with the next."""
    FAIL = "fail"
    """Stop the application; nothing is committed past the record."""


class ExceptionHandler(Protocol):
    """Called in the task, once for each record that could not be decoded or whose operator raised. Must not block."""

    def __call__(self, error: RecordError, /) -> HandlerResponse:
        """Decide what happens to the record that ``error`` names."""


class LogAndFail:
    """Stop at the first bad record: the default. Mirrors ``LogAndFailExceptionHandler``."""

    def __call__(self, error: RecordError) -> HandlerResponse:
        """Always FAIL; the error itself is the log line."""
        return HandlerResponse.FAIL


class LogAndContinue:
    """Log the bad record and go on. Mirrors ``LogAndContinueExceptionHandler``."""

    def __call__(self, error: RecordError) -> HandlerResponse:
        """Always RESUME."""
        from penstock.common.log import logger

        logger(__name__).warning("record dropped", error=str(error), cause=repr(error.__cause__))
        return HandlerResponse.RESUME
