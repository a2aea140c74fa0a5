"""Handlers that decide what happens if a record cannot be processed, or an actor fails. Names and answers are those of
Kafka Streams (KIP-161, KIP-210, KIP-1033, KIP-1034, KIP-671)."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from penstock.common.dead_letters import EXCEPTION, MESSAGE, OFFSET, PARTITION, STACKTRACE, TOPIC
from penstock.common.errors import ConfigError, RetriableError
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.common.records import Header, Headers, ProducerRecord, Record, check_headers
from penstock.common.similar_lines import SimilarLines

DeadLetter = ProducerRecord[bytes | None, bytes | None]
"""A record for a dead letter topic."""


class Result(Enum):
    """The decision of a handler of exceptions about a record. Mirrors ``Result`` of Kafka Streams' handlers."""

    RESUME = "resume"
    """Drop the record, or the result, count it in ``dropped-records-total``, and continue with the next."""
    FAIL = "fail"
    """Stop the application; nothing is committed past the record."""
    RETRY = "retry"
    """Go back to the last commit and try again. Only a ``ProductionExceptionHandler`` may give this answer, and only
    about an error that may pass. About any other error it counts as FAIL. penstock itself tries again after errors that
    may pass, without asking a handler."""


@dataclass(frozen=True)
class Response:
    """The answer of a handler of exceptions: a result, and records that are written before it takes effect.

    Under ``exactly_once_v2`` these are in the transaction that commits the offset of the record. Mirrors ``Response``.
    """

    result: Result
    dead_letter_queue_records: tuple[DeadLetter, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[DeadLetter] = ()) -> Response:
        """Returns the answer to drop the record."""
        return cls(Result.RESUME, tuple(dead_letter_queue_records))

    @classmethod
    def fail(cls, dead_letter_queue_records: Iterable[DeadLetter] = ()) -> Response:
        """Returns the answer to stop the application. Under ``exactly_once_v2`` readers of committed records do not see
        these records, because the transaction is aborted."""
        return cls(Result.FAIL, tuple(dead_letter_queue_records))

    @classmethod
    def retry(cls) -> Response:
        """Returns the answer to go back to the last commit. It has no records, because the task would write them again
        and again."""
        return cls(Result.RETRY)


@dataclass(frozen=True)
class ErrorHandlerContext:
    """The place of an error. Mirrors ``ErrorHandlerContext``.

    ``topic``, ``partition`` and ``offset`` are those of the input record; None, −1 and −1 if there is none, as in a
    punctuator. ``headers`` and ``timestamp`` are those that the failed node saw. ``source_raw_key`` and
    ``source_raw_value`` are the bytes of the input record as it was read: None if there is no record, or if an operator
    such as ``suppress`` has held its effect back, until the bytes were no longer kept.
    """

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor_node_id: str
    task_id: TaskId
    timestamp: int
    source_raw_key: bytes | None = None
    source_raw_value: bytes | None = None
    dead_letter_queue_topic: str | None = None
    """``errors.dead.letter.queue.topic.name``."""

    def dead_letter_queue_records(self, error: Exception) -> tuple[DeadLetter, ...]:
        """Returns the dead letters that the built-in handlers write: one if ``errors.dead.letter.queue.topic.name`` is
        set, else none. Its headers describe ``error`` (KIP-1034)."""
        if self.dead_letter_queue_topic is None:
            return ()
        headers = [*self.headers, *_headers_of(error, self)]
        # A record without a timestamp, such as one that the broker has without, gets the time of sending.
        timestamp = self.timestamp if self.timestamp >= 0 else None
        key, value = self.source_raw_key, self.source_raw_value
        return (ProducerRecord(self.dead_letter_queue_topic, key, value, timestamp, headers),)

    def __str__(self) -> str:
        place = f"topic {self.topic}, partition {self.partition}, offset {self.offset}; " if self.topic else ""
        return f"{place}node {self.processor_node_id}; task {self.task_id}"


_LONGEST_MESSAGE, _LONGEST_STACK = 4_000, 32_000
"""Characters. Many errors quote the value in their message. A letter of three times the record's size might not fit
into the topic, and the application would stop at a record that it should drop."""


def _bounded(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    tail = longest // 4
    head = longest - tail
    return f"{text[:head]}… {len(text) - longest:,} characters left out …{text[-tail:]}"


def _headers_of(error: Exception, context: ErrorHandlerContext) -> list[Header]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    stack = _bounded("".join(traceback.format_exception(error)), _LONGEST_STACK)
    message = _bounded(str(error), _LONGEST_MESSAGE)
    return [
        (EXCEPTION, name.encode()),
        (MESSAGE, message.encode(errors="replace") if message else None),
        (STACKTRACE, stack.encode(errors="replace")),
        (TOPIC, None if context.topic is None else context.topic.encode()),
        (PARTITION, str(context.partition).encode()),
        (OFFSET, str(context.offset).encode()),
    ]


class DeserializationExceptionHandler(ABC):
    """Decides about an input record whose key or value cannot be decoded. Mirrors ``DeserializationExceptionHandler``.

    It is pickled with the program, and called in the task when it is the record's turn. It must not block, because all
    tasks of the actor wait for it.
    """

    @abstractmethod
    def handle_error(
        self, context: ErrorHandlerContext, record: Record[bytes | None, bytes | None], error: Exception
    ) -> Response:
        """Returns ``Response.resume`` or ``Response.fail``. ``error`` is the exception that the serde raised."""


class ProcessingExceptionHandler(ABC):
    """Decides about a record for which user code raised: a function, a processor, a punctuator, a store's serde.
    Mirrors ``ProcessingExceptionHandler``. Like :class:`DeserializationExceptionHandler`, it must not block."""

    @abstractmethod
    def handle_error(self, context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
        """Returns ``Response.resume`` or ``Response.fail``. ``error`` is the exception that the user code raised.
        ``record`` is the input of the failed node: None in a punctuator, and with a ``Change`` as value in an operator
        of a table."""


class SerializationExceptionOrigin(Enum):
    """The part of a result that could not be serialised. Mirrors ``SerializationExceptionOrigin``."""

    KEY = "key"
    VALUE = "value"


class ProductionExceptionHandler(ABC):
    """Decides about a result that cannot be serialised, or that the broker refuses. Mirrors
    ``ProductionExceptionHandler``. Like :class:`DeserializationExceptionHandler`, it must not block."""

    @abstractmethod
    def handle_error(
        self, context: ErrorHandlerContext, record: ProducerRecord[bytes | None, bytes | None], error: Exception
    ) -> Response:
        """Returns the answer about a record that the client or the broker refuses: a ``ProductionError``, such as one
        about its size."""

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord[Any, Any],
        error: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        """Returns ``Response.resume`` or ``Response.fail``; FAIL if it is not overridden. RESUME drops only this
        result."""
        return Response.fail(context.dead_letter_queue_records(error))


_similar = SimilarLines()


def _log(what: str, context: ErrorHandlerContext, error: Exception) -> None:
    kind = what, context.processor_node_id, context.topic, type(error)
    if (left_out := _similar.admit(kind)) is not None:
        more = {"similar_left_out": left_out} if left_out else {}
        cause = _bounded("".join(traceback.format_exception(error)), _LONGEST_STACK)
        text = _bounded(f"{type(error).__name__}: {error}", _LONGEST_MESSAGE)
        logger(__name__).warning(what, at=str(context), error=text, cause=cause, **more)


class LogAndFail(DeserializationExceptionHandler, ProcessingExceptionHandler):
    """Stops at the first bad record: the default. Mirrors ``LogAndFailExceptionHandler`` and
    ``LogAndFailProcessingExceptionHandler``."""

    def handle_error(self, context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
        """Returns FAIL, with a dead letter if a topic for dead letters is set. The error is logged when the application
        ends."""
        return Response.fail(context.dead_letter_queue_records(error))


class LogAndContinue(DeserializationExceptionHandler, ProcessingExceptionHandler):
    """Logs the bad record and continues. Mirrors ``LogAndContinueExceptionHandler`` and
    ``LogAndContinueProcessingExceptionHandler``."""

    def handle_error(self, context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception) -> Response:
        """Logs the error, but at most five similar errors in half a minute. Returns RESUME, with a dead letter if a
        topic for dead letters is set."""
        _log("record dropped", context, error)
        return Response.resume(context.dead_letter_queue_records(error))


class DefaultProductionExceptionHandler(ProductionExceptionHandler):
    """Tries again after errors that may pass, and stops at any other. Mirrors ``DefaultProductionExceptionHandler``."""

    def handle_error(
        self, context: ErrorHandlerContext, record: ProducerRecord[bytes | None, bytes | None], error: Exception
    ) -> Response:
        """Returns RETRY for a :class:`RetriableError`, otherwise FAIL, with a dead letter if a topic for dead letters
        is set."""
        if isinstance(error, RetriableError):
            return Response.retry()
        return Response.fail(context.dead_letter_queue_records(error))


_SLOW_S = 1.0


def asked(handler: object, ask: Callable[[], object], error: Exception, context: ErrorHandlerContext) -> Response:
    """Returns the answer that ``ask`` gets from ``handler`` about ``error``. Raises ConfigError if the handler raises,
    or returns something other than a Response. Logs a handler that is slow."""
    name = type(handler).__qualname__
    about = f"it was asked about {type(error).__name__}: {error} [{context}]"
    begun = time.monotonic()
    try:
        answer = ask()
    except Exception as problem:  # a user's handler may raise anything
        raise ConfigError(f"exception handler {name} raised {type(problem).__name__}: {problem} ({about})") from problem
    if (took := time.monotonic() - begun) > _SLOW_S and _similar.admit((name, "slow")) is not None:
        what = "exception handler is slow: all tasks of the actor wait for it"
        logger(__name__).warning(what, handler=name, seconds=round(took, 1))
    if not (
        isinstance(answer, Response)
        and isinstance(answer.result, Result)
        and isinstance(answer.dead_letter_queue_records, tuple | list)
    ):
        raise ConfigError(
            f"exception handler {name} returned {answer!r}: return Response.resume() or Response.fail() ({about})"
        ) from error
    for letter in answer.dead_letter_queue_records:
        _check_letter(letter, name)
    return answer


def _check_letter(letter: object, handler: str) -> None:
    if not isinstance(letter, ProducerRecord):
        raise ConfigError(
            f"exception handler {handler} returned the dead letter {letter!r}: it must be a ProducerRecord"
        )
    try:
        check_headers(letter.headers, letter.topic)
    except TypeError as error:
        raise ConfigError(f"exception handler {handler} returned a dead letter that cannot be sent: {error}") from error
    for part, data in (("key", letter.key), ("value", letter.value)):
        if data is not None and not isinstance(data, bytes):
            raise ConfigError(
                f"exception handler {handler} returned a dead letter whose {part} is of type {type(data).__name__}: it "
                "must be bytes or None"
            )


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
