"""Handlers that decide what happens if a record cannot be processed, or an actor fails. The possible answers are those
of Kafka Streams (KIP-161, KIP-1033, KIP-671)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from penstock.common.errors import ConfigError, RecordError


class HandlerResponse(Enum):
    """The answer of an exception handler."""

    RESUME = "resume"
    """Drop the record, count it in ``dropped-records-total``, continue with the next."""
    FAIL = "fail"
    """Stop the application; nothing is committed past the record."""


class ExceptionHandler(Protocol):
    """Called in the task, once for each record that could not be decoded or whose operator raised. Must not block."""

    def __call__(self, error: RecordError, /) -> HandlerResponse:
        """Returns the decision about the record that ``error`` names."""


def response_of(handler: ExceptionHandler, error: RecordError) -> HandlerResponse:
    """Returns the handler's answer to ``error``. Raises ConfigError for a handler that raises, and for an answer that
    is not a HandlerResponse."""
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    try:
        answer: object = handler(error)
    except Exception as problem:  # a user's function may raise anything
        raise ConfigError(
            f"exception handler {name} raised {type(problem).__name__}: {problem} (it was asked about: {error})"
        ) from problem
    if isinstance(answer, HandlerResponse):
        return answer
    raise ConfigError(
        f"exception handler {name} returned {answer!r}: return HandlerResponse.RESUME or HandlerResponse.FAIL "
        f"(it was asked about: {error})"
    ) from error


class LogAndFail:
    """Stop at the first bad record: the default. Mirrors ``LogAndFailExceptionHandler``."""

    def __call__(self, error: RecordError) -> HandlerResponse:
        """Returns FAIL; the error itself is logged when the application ends."""
        return HandlerResponse.FAIL


class LogAndContinue:
    """Log the bad record and continue. Mirrors ``LogAndContinueExceptionHandler``."""

    def __call__(self, error: RecordError) -> HandlerResponse:
        """Logs the error, and returns RESUME."""
        from penstock.common.log import logger

        logger(__name__).warning("record dropped", error=str(error), cause=repr(error.__cause__))
        return HandlerResponse.RESUME


class UncaughtExceptionResponse(Enum):
    """The answer of an uncaught exception handler. Mirrors ``StreamThreadExceptionResponse``."""

    REPLACE_ACTOR = "replace actor"
    """Another stream actor takes the place of the one that failed, and continues from its last commit. Kafka Streams'
    ``REPLACE_THREAD``: a stream actor is what a stream thread is there."""
    SHUTDOWN_CLIENT = "shut down client"
    """The application ends in ERROR in this Ray cluster."""
    SHUTDOWN_APPLICATION = "shut down application"
    """Like SHUTDOWN_CLIENT. The members of the application in other Ray clusters continue: stop them there."""


class UncaughtExceptionHandler(Protocol):
    """Called once, in the stream actor that fails, with the exception. Mirrors ``StreamsUncaughtExceptionHandler``."""

    def __call__(self, exception: BaseException, /) -> UncaughtExceptionResponse:
        """Returns the decision about the application."""
