"""What the closures of one task share: where the current record came from, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any

from penstock.common.errors import (
    ProcessingError,
    ProductionError,
    RecordError,
    SerializationError,
    StreamsError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.common.handlers import ExceptionHandler, HandlerResponse, response_of
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Header, Headers, RecordMetadata

if TYPE_CHECKING:
    from penstock.tasks.idle_time import IdleTime

# Errors of penstock that mean that the user's code asked for what cannot be.
_MISUSE = (TopologyError, UnknownStateStoreError, SerializationError)


def is_told(error: Exception) -> bool:
    """Whether an error that leaves the user's code is penstock's own and says all: a producer's, a store's."""
    return isinstance(error, StreamsError) and not isinstance(error, _MISUSE)


EMIT_INTERVAL_MS = 1000
"""Kafka Streams' own, which is no part of its public configuration."""


class PlacedHeaders(list[Header]):
    """Headers that say where their record came from. They go wherever headers go, into a cached store too: when that is
    flushed, and other records have been processed since, an operator that asks for the source still gets it."""

    __slots__ = ("offset", "source")

    def __init__(self, source: TopicPartition | None, offset: int, headers: Headers | None) -> None:
        if headers:
            super().__init__(headers)
        self.source = source
        self.offset = offset

    def replaced_by(self, headers: Headers | None) -> PlacedHeaders:
        """``headers`` that a processor has put in place of these: their record came from where this one did."""
        return headers if isinstance(headers, PlacedHeaders) else PlacedHeaders(self.source, self.offset, headers)


Context = tuple[TopicPartition | None, "RunPosition | PlacedHeaders", Headers | None, int]
"""What is current: partition, position, headers, timestamp."""


_NO_VALUES: Iterator[Any] = iter(())


class RunPosition:
    """How far the current run of records has come, with nothing written down per record.

    ``values`` is the list iterator that the run advances with each record. Such an iterator knows exactly how many
    values are left (``length_hint``); ``end`` is the index in the batch, whose ``offsets`` these are, behind the run.
    """

    __slots__ = ("end", "offsets", "values")

    def __init__(self, offsets: Sequence[int] = (), end: int = 0, values: Iterator[Any] = _NO_VALUES) -> None:
        self.offsets = offsets
        self.end = end
        self.values = values

    @property
    def offset(self) -> int:
        """Offset of the current record: the one whose value was taken last."""
        return self.offsets[self.end - length_hint(self.values) - 1]


class Remembered:
    """A time (ms) that an operator goes on from after a restart, −1 if there is none yet. It is committed beside the
    offsets; where several partitions have one, the largest counts."""

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = -1


class TaskContext:
    """One per task. ``headers`` and ``timestamp`` are those of the current record wherever something reads them.

    ``emit_interval_ms``: by the wall clock, how often an operator looks at most for windows that have closed.
    ``idle``: the operators whose time goes on while no records come; None where it does not.
    ``keeps_places``: False where the offsets of records mean nothing once the host has ended.
    ``is_latest``: False while a versioned table hands on an update that is older than the latest of its key.
    """

    __slots__ = (
        "_position",
        "_run",
        "_source",
        "application_id",
        "commit_requested",
        "dropped_by_handlers",
        "dropped_records",
        "emit_interval_ms",
        "handler",
        "headers",
        "idle",
        "is_latest",
        "keeps_places",
        "partition",
        "remembered",
        "stream_time",
        "task_id",
        "timestamp",
        "wall_ms",
    )

    def __init__(self, application_id: str, task_id: TaskId, handler: ExceptionHandler) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.handler = handler
        self.headers: Headers | None = None
        self.is_latest = True
        self.keeps_places = True
        self.timestamp = -1
        self.stream_time = -1
        self.wall_ms = 0
        self.dropped_records = 0
        self.dropped_by_handlers = 0
        self.commit_requested = False
        self.emit_interval_ms = EMIT_INTERVAL_MS
        self.remembered: dict[str, Remembered] = {}
        self.idle: IdleTime | None = None
        self.partition: TopicPartition | None = None
        self._source: TopicPartition | None = None
        self._run = RunPosition()
        self._position: RunPosition | PlacedHeaders = self._run

    def enter(self, partition: TopicPartition, offsets: Sequence[int], end: int, values: Iterator[Any]) -> None:
        """A run of records begins, or goes on: see :class:`RunPosition`."""
        self.partition = self._source = partition
        run = self._position = self._run
        run.offsets = offsets
        run.end = end
        run.values = values

    def enter_run(self, partition: TopicPartition, run: RunPosition) -> None:
        """The same of a run that was begun before, and left for another one."""
        self.partition = self._source = partition
        self._run = self._position = run

    def leave(self) -> None:
        """No record is current: a flush or a punctuation follows."""
        self.partition = None
        self.headers = None

    def source(self) -> tuple[TopicPartition | None, int]:
        """Partition and offset of the current record. In a flush they are what the headers of the update say, and if
        these say nothing, as in a punctuation, those of the last record. None and −1 where there was none yet."""
        if self.partition is not None:
            return self.partition, self._position.offset
        if isinstance(self.headers, PlacedHeaders):
            return self.headers.source, self.headers.offset
        return (None, -1) if self._source is None else (self._source, self._run.offset)

    def enter_buffered(
        self, source: TopicPartition | None, offset: int, headers: Headers | None, timestamp: int
    ) -> Context:
        """A record that was held back goes on: it is current until :meth:`leave_buffered` gets what this returns."""
        before = self.partition, self._position, self.headers, self.timestamp
        self.partition = source
        self.headers = self._position = PlacedHeaders(source, offset, headers)
        self.timestamp = timestamp
        return before

    def leave_buffered(self, before: Context) -> None:
        """What was current before is so again."""
        self.partition, self._position, self.headers, self.timestamp = before

    def metadata(self) -> RecordMetadata | None:
        """Where the current record came from, if there is one."""
        if self.partition is None:
            return None
        return RecordMetadata(*self.partition, self._position.offset)

    def failed(self, error: Exception, operator: str, key: Any) -> None:
        """The user function of ``operator`` raised: drop the record if the handler says so, else raise.

        What an operator further down, a store or a producer has said already is raised as it is.
        """
        if is_told(error):
            raise error
        self._decide(ProcessingError, f"{type(error).__name__}: {error}", error, operator, key)

    def not_serialized(self, error: Exception, why: str, sink: str, topic: str, key: Any) -> None:
        """A result could not be serialised. Always raises ProductionError: what is wrong is the program."""
        raise self._error(
            ProductionError, f"a result for topic {topic} cannot be serialised: {why}", sink, key
        ) from error

    def not_sent(self, error: ProductionError, sink: str) -> None:
        """The producer has refused a result, too large for one. Always raises, with the record that it was made of."""
        raise self._error(ProductionError, error.what, sink, error.key) from error

    def _decide(self, kind: Callable[..., RecordError], what: str, cause: Exception, operator: str, key: Any) -> None:
        error = self._error(kind, what, operator, key)
        error.__cause__ = cause
        if response_of(self.handler, error) is HandlerResponse.FAIL:
            raise error
        self.handler_dropped()

    def handler_dropped(self) -> None:
        """A handler of exceptions has decided to drop a record."""
        self.dropped_records += 1
        self.dropped_by_handlers += 1

    def _error(self, kind: Callable[..., RecordError], what: str, operator: str, key: Any) -> RecordError:
        at = self.metadata()
        if at is None:
            return kind(what, operator=operator, key=key)
        return kind(what, operator=operator, topic=at.topic, partition=at.partition, offset=at.offset, key=key)
