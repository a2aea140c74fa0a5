"""The one place where a task decides about errors: of serdes, of user code, of results that cannot be written.

For each kind a handler is asked, as in Kafka Streams. Its dead letters are written through the task's collector. Then
the record counts as dropped, or an error is raised that names its position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.config import StreamsConfig
from penstock.common.errors import (
    DeserializationError,
    ProcessingError,
    ProductionError,
    RecordError,
    RecordRefusedError,
    RetriableError,
    RuleBrokenError,
    SerializationError,
    StreamsError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.common.handlers import (
    DefaultProductionExceptionHandler,
    ErrorHandlerContext,
    LogAndContinue,
    LogAndFail,
    Response,
    Result,
    SerializationExceptionOrigin,
    asked,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.records import NO_HEADERS, SENT_NOW, Headers, ProducerRecord, Record
from penstock.tasks.context import TaskContext
from penstock.tasks.contracts import Send
from penstock.tasks.task_metrics import HandlerCounts

# Errors of penstock for which the user's code is at fault.
_MISUSE = (TopologyError, UnknownStateStoreError, SerializationError)
_BUILT_IN = (LogAndFail, LogAndContinue, DefaultProductionExceptionHandler)

RawRecord = tuple[bytes | None, bytes | None]
"""Key and value of an input record as it was read."""
Wait = Callable[[RetriableError, int], None]
"""Waits before attempt number 1, 2, … to ask a serde again, or raises when it has been asked often enough."""
_GONE: RawRecord = (None, None)


def raise_at_once(error: RetriableError, attempt: int) -> None:
    """A :data:`Wait` without patience."""
    raise error


def is_explained(error: Exception) -> bool:
    """Returns True if an error that user code raises is penstock's own and needs no further explanation, such as that
    of a producer or a store."""
    return isinstance(error, StreamsError) and not isinstance(error, _MISUSE)


def has_own_handlers(config: StreamsConfig) -> bool:
    """Returns True if a handler is the program's own, so that it may write to any topic."""
    return any(type(each) not in _BUILT_IN for each in config.exception_handlers)


def reads_source_bytes(config: StreamsConfig) -> bool:
    """Returns True if a handler may ask for the bytes of a record as it was read."""
    return config.errors_dead_letter_queue_topic_name is not None or has_own_handlers(config)


class Failures:
    """Decides about the errors of one task. ``send`` writes dead letters; None: there are none, as in the task of
    global stores. ``raw_of`` returns the bytes of an input record that is not done yet. ``wait`` is called
    before a serializer that cannot answer is asked again."""

    def __init__(self, context: TaskContext, config: StreamsConfig, send: Send | None) -> None:
        self.undecodable_records = self.failed_records = self.unwritten_results = self.letters = 0
        self.send = send
        self.wait: Wait = raise_at_once
        self.raw_of: Callable[[TopicPartition, int], RawRecord] | None = None
        self._context = context
        self._task_id: TaskId = context.task_id
        self._deserialization = config.deserialization_exception_handler
        self._processing = config.processing_exception_handler
        self._production = config.production_exception_handler
        self._topic = config.errors_dead_letter_queue_topic_name if send is not None else None
        self._has_logged_lost_letters = False

    def counts(self) -> HandlerCounts:
        """Returns what the handlers have dropped so far, and the number of dead letters."""
        dropped = self.undecodable_records, self.failed_records, self.unwritten_results
        return HandlerCounts(*dropped, self.letters)

    # ---- what fails ----

    def undecodable(
        self, cause: Exception, part: str, source: str, at: TopicPartition, offset: int, record: Record[Any, Any]
    ) -> None:
        """Decide about an input record whose ``part``, key or value, cannot be decoded, in its turn."""
        context = ErrorHandlerContext(
            *at, offset, record.headers, source, self._task_id, record.timestamp, record.key, record.value, self._topic
        )
        handler = self._deserialization
        response = asked(handler, lambda: handler.handle_error(context, record, cause), cause, context)
        why = (
            f"the {part} cannot be decoded: {type(cause).__name__}: {cause}. Fix the serde or the data, or set "
            "deserialization.exception.handler to LogAndContinue() to drop such records"
        )
        error = DeserializationError(why, topic=at.topic, partition=at.partition, offset=offset, key=record.key)
        self._carry_out(response, error, cause)
        self.undecodable_records += 1

    def in_operator(self, cause: Exception, node: str, key: Any, value: Any, timestamp: int) -> None:
        """Decide about a record for which the user code of ``node`` raised.

        An error that an operator further down, a store or a producer has already explained is raised as it is.
        """
        if is_explained(cause):
            raise cause
        self._in_user_code(cause, node, key, value, timestamp)

    def in_call(self, cause: Exception, node: str, key: Any, value: Any, timestamp: int) -> None:
        """Decide about a record whose call out has failed. No operator, store or producer of the task has a part in it,
        so an error of penstock is like others; but RetriableError takes the task back."""
        if isinstance(cause, RetriableError | RuleBrokenError):
            raise cause
        self._in_user_code(cause, node, key, value, timestamp)

    def _in_user_code(self, cause: Exception, node: str, key: Any, value: Any, timestamp: int) -> None:
        record = Record(key, value, max(timestamp, 0), self._context.headers or NO_HEADERS)
        self._process(cause, node, record, timestamp)

    def in_punctuator(self, cause: Exception, node: str, now_ms: int) -> None:
        """Decide about a call of a punctuator that raised."""
        if is_explained(cause):
            raise cause
        self._process(cause, node, None, now_ms)

    def _process(self, cause: Exception, node: str, record: Record[Any, Any] | None, timestamp: int) -> None:
        context, handler = self._context_of(node, timestamp), self._processing
        response = asked(handler, lambda: handler.handle_error(context, record, cause), cause, context)
        notes = "".join(f", {note}" for note in getattr(cause, "__notes__", ()))
        what, key = f"{type(cause).__name__}: {cause}{notes}", None if record is None else record.key
        self._carry_out(response, self._error(ProcessingError, what, context, key), cause)
        self.failed_records += 1

    def unserializable(
        self,
        cause: Exception,
        why: str,
        node: str,
        record: ProducerRecord[Any, Any],
        timestamp: int,
        origin: SerializationExceptionOrigin,
    ) -> None:
        """Decide about a result that cannot be serialised. ``why`` explains it."""
        context, handler = self._context_of(node, timestamp), self._production
        ask = lambda: handler.handle_serialization_error(context, record, cause, origin)  # noqa: E731
        response = asked(handler, ask, cause, context)
        what = f"a result for topic {record.topic} cannot be serialised: {why}"
        self._carry_out(response, self._error(ProductionError, what, context, record.key), cause)
        self.unwritten_results += 1

    def not_sent(
        self, cause: ProductionError, node: str, record: ProducerRecord[bytes | None, bytes | None], timestamp: int
    ) -> None:
        """Decide about a result that the client or a broker refuses. Raises ``cause`` if it is about another record,
        and ProductionError with the current one if no handler may decide: the topic is absent, or access is denied."""
        if cause.late:
            raise cause
        context, handler = self._context_of(node, timestamp), self._production
        error = self._error(type(cause), cause.what, context, cause.key)
        if not isinstance(cause, RecordRefusedError):
            raise error from cause
        refused = replace(record, timestamp=timestamp, headers=context.headers)
        response = asked(handler, lambda: handler.handle_error(context, refused, cause), cause, context)
        self._carry_out(response, error, cause)
        self.unwritten_results += 1

    # ---- what follows ----

    def _carry_out(self, response: Response, error: RecordError, cause: Exception) -> None:
        """Write the dead letters; then return, with the record counted as dropped, or raise ``error``."""
        for letter in response.dead_letter_queue_records:
            try:
                self._write(letter)
            except ProductionError as refused:
                if refused.late:
                    raise
                error.what = f"{error.what}. Its dead letter cannot be written: {refused.what}"
                raise error from refused
        if response.result is Result.RESUME:
            self._context.dropped_records += 1
            return
        if response.result is Result.RETRY:
            error.what += ". The handler answered RETRY: that counts as FAIL, because the error cannot pass"
        raise error from cause

    def _write(self, letter: ProducerRecord[bytes | None, bytes | None]) -> None:
        if self.send is None:
            if not self._has_logged_lost_letters:
                self._has_logged_lost_letters = True
                what = "dead letters are not written for records of global stores: the handler's are dropped"
                logger(__name__).warning(what, topic=letter.topic)
            return
        timestamp = SENT_NOW if letter.timestamp is None else letter.timestamp
        partition = -1 if letter.partition is None else letter.partition
        self.send(letter.topic, letter.key, letter.value, timestamp, letter.headers or None, partition)
        self.letters += 1

    def _context_of(self, node: str, timestamp: int) -> ErrorHandlerContext:
        source, offset = self._context.place()
        headers: Headers = self._context.headers or NO_HEADERS
        if source is None:
            return ErrorHandlerContext(None, -1, -1, headers, node, self._task_id, timestamp, None, None, self._topic)
        raw = _GONE if self.raw_of is None else self._context.raw() or self.raw_of(source, offset)
        return ErrorHandlerContext(*source, offset, headers, node, self._task_id, timestamp, *raw, self._topic)

    @staticmethod
    def _error(kind: Callable[..., RecordError], what: str, at: ErrorHandlerContext, key: Any) -> RecordError:
        if at.topic is None:
            return kind(what, operator=at.processor_node_id, key=key)
        return kind(
            what,
            operator=at.processor_node_id,
            topic=at.topic,
            partition=at.partition,
            offset=at.offset,
            key=key,
        )
