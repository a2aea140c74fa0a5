"""State that the closures of one task share: the source of the current record, and the handling of its failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never

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
from penstock.common.records import Headers, RecordMetadata
from penstock.tasks.record_places import PlacedHeaders, RunCursor

if TYPE_CHECKING:
    from penstock.tasks.idle_time import IdleTime

# Errors of penstock that mean that the user's code asked for what cannot be.
_MISUSE = (TopologyError, UnknownStateStoreError, SerializationError)


def is_explained(error: Exception) -> bool:
    """Returns True if an error that leaves user code is penstock's own and complete: a producer's, a store's."""
    return isinstance(error, StreamsError) and not isinstance(error, _MISUSE)


EMIT_INTERVAL_MS = 1000
"""Kafka Streams' own interval, which is not part of its public configuration."""


Context = tuple[TopicPartition | None, "RunCursor | PlacedHeaders", Headers | None, int]
"""The current partition, position, headers and timestamp."""


class Remembered:
    """A time (ms) from which an operator continues after a restart, −1 if there is none yet.

    It is committed in the metadata of the offsets. If several partitions have one, the largest counts.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = -1


class TaskContext:
    """The context of one task.

    ``headers`` and ``timestamp`` are set to the current record's before any code that reads them runs.
    ``emit_interval_ms``: least wall-clock time between two looks of an operator for windows that have closed.
    ``idle``: the operators whose time advances while no records come; None if there are none.
    ``keeps_places``: False if offsets of records do not outlive the host, as in the test driver.
    ``refuses_wall_clock``: True if the host has no wall clock that could call a punctuator.
    ``is_latest``: False while a versioned table forwards an update that is older than the latest of its key.
    """

    __slots__ = (
        "_cursor",
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
        "refuses_wall_clock",
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
        self.refuses_wall_clock = False
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
        self._run = RunCursor()
        self._cursor: RunCursor | PlacedHeaders = self._run

    def enter(self, partition: TopicPartition, offsets: Sequence[int], end: int, values: Iterator[Any]) -> None:
        """Begin or continue a run of records: see :class:`RunCursor`."""
        self.partition = self._source = partition
        run = self._cursor = self._run
        run.offsets = offsets
        run.end = end
        run.values = values

    def enter_run(self, partition: TopicPartition, run: RunCursor) -> None:
        """Continue ``run``, a run of records that was left for another one, or begin it."""
        self.partition = self._source = partition
        self._run = self._cursor = run

    def leave(self) -> None:
        """Leave the current record, so that none is current: a flush or a punctuation follows."""
        self.partition = None
        self.headers = None

    def source(self) -> tuple[TopicPartition | None, int]:
        """Returns partition and offset of the current record. In a flush they are those in the update's headers, and if
        these have none, as in a punctuation, those of the last record. None and −1 if there was none yet."""
        if self.partition is not None:
            return self.partition, self._cursor.offset
        if isinstance(self.headers, PlacedHeaders):
            return self.headers.source, self.headers.offset
        return (None, -1) if self._source is None else (self._source, self._run.offset)

    def enter_held_back(
        self, source: TopicPartition | None, offset: int, headers: Headers | None, timestamp: int
    ) -> Context:
        """Make a record that was held back current, until :meth:`leave_held_back` is called with what this returns."""
        before = self.partition, self._cursor, self.headers, self.timestamp
        self.partition = source
        self.headers = self._cursor = PlacedHeaders(source, offset, headers)
        self.timestamp = timestamp
        return before

    def leave_held_back(self, before: Context) -> None:
        """Make what :meth:`enter_held_back` returned current again."""
        self.partition, self._cursor, self.headers, self.timestamp = before

    def metadata(self) -> RecordMetadata | None:
        """Returns topic, partition and offset of the current record; None if there is none."""
        if self.partition is None:
            return None
        return RecordMetadata(*self.partition, self._cursor.offset)

    def failed(self, error: Exception, operator: str, key: Any) -> None:
        """Handle an error of the user function of ``operator``: drop the record if the handler says so, else raise.

        An error that an operator further down, a store or a producer has already explained is raised as it is.
        """
        if is_explained(error):
            raise error
        notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        self._decide(ProcessingError, f"{type(error).__name__}: {error}{notes}", error, operator, key)

    def not_serialized(self, error: Exception, why: str, sink: str, topic: str, key: Any) -> Never:
        """Always raises ProductionError, for a result that could not be serialised: the program is at fault."""
        raise self._error(
            ProductionError, f"a result for topic {topic} cannot be serialised: {why}", sink, key
        ) from error

    def not_sent(self, error: ProductionError, sink: str) -> Never:
        """Always raises ProductionError with the current record, for a result that the producer has refused, for
        example because it is too large."""
        raise self._error(ProductionError, error.what, sink, error.key) from error

    def _decide(self, kind: Callable[..., RecordError], what: str, cause: Exception, operator: str, key: Any) -> None:
        error = self._error(kind, what, operator, key)
        error.__cause__ = cause
        if response_of(self.handler, error) is HandlerResponse.FAIL:
            raise error
        self.handler_dropped()

    def handler_dropped(self) -> None:
        """Count a record that an exception handler has decided to drop."""
        self.dropped_records += 1
        self.dropped_by_handlers += 1

    def _error(self, kind: Callable[..., RecordError], what: str, operator: str, key: Any) -> RecordError:
        at = self.metadata()
        if at is None:
            return kind(what, operator=operator, key=key)
        return kind(what, operator=operator, topic=at.topic, partition=at.partition, offset=at.offset, key=key)
