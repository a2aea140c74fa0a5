"""What the closures of one task share: where the current record came from, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import Any

from penstock.common.errors import (
    ProcessingError,
    ProductionError,
    RecordError,
    SerializationError,
    StreamsError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.common.handlers import ExceptionHandler, HandlerResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordMetadata

# Errors of penstock that mean that the user's code asked for what cannot be.
_MISUSE = (TopologyError, UnknownStateStoreError, SerializationError)


class RunPosition:
    """How far the current run of records has come, with nothing written down per record.

    ``values`` is the list iterator that the run advances with each record. Such an iterator knows exactly how many
    values are left (``length_hint``); ``end`` is the index in the batch, whose ``offsets`` these are, behind the run.
    """

    __slots__ = ("end", "offsets", "values")

    def __init__(self) -> None:
        self.offsets: Sequence[int] = []
        self.end = 0
        self.values: Iterator[Any] = iter([])

    @property
    def offset(self) -> int:
        """Offset of the current record: the one whose value was taken last."""
        return self.offsets[self.end - length_hint(self.values) - 1]


Place = tuple[TopicPartition | None, RunPosition]
"""Where a record stands in the input."""


class TaskContext:
    """One per task. ``headers`` and ``timestamp`` are those of the current record wherever something reads them.

    ``is_latest``: False while a versioned table hands on an update that is older than the latest of its key.
    """

    __slots__ = (
        "_position",
        "application_id",
        "commit_requested",
        "dropped_records",
        "handler",
        "headers",
        "is_latest",
        "partition",
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
        self.timestamp = -1
        self.stream_time = -1
        self.wall_ms = 0
        self.dropped_records = 0
        self.commit_requested = False
        self.partition: TopicPartition | None = None
        self._position = RunPosition()

    def enter(self, partition: TopicPartition, offsets: Sequence[int], end: int, values: Iterator[Any]) -> None:
        """A run of records begins, or goes on: see :class:`RunPosition`."""
        self.partition = partition
        position = self._position
        position.offsets = offsets
        position.end = end
        position.values = values

    def leave(self) -> None:
        """No record is current: a flush or a punctuation follows."""
        self.partition = None
        self.headers = None

    def place(self) -> Place:
        """Where the current record stands: for :meth:`go_back`."""
        return self.partition, self._position

    def stand_at(self, record: RecordMetadata | None) -> None:
        """What is done now, until :meth:`go_back`, is done for ``record``, which has waited."""
        self.partition, self._position = None, RunPosition()
        if record is not None:
            self.partition = TopicPartition(record.topic, record.partition)
            self._position.offsets, self._position.end = [record.offset], 1

    def go_back(self, place: Place) -> None:
        """To the record that was current."""
        self.partition, self._position = place

    def metadata(self) -> RecordMetadata | None:
        """Where the current record came from, if there is one."""
        if self.partition is None:
            return None
        return RecordMetadata(*self.partition, self._position.offset)

    def failed(self, error: Exception, operator: str, key: Any) -> None:
        """The user function of ``operator`` raised: drop the record if the handler says so, else raise.

        What an operator further down, a store or a producer has said already is raised as it is.
        """
        if isinstance(error, StreamsError) and not isinstance(error, _MISUSE):
            raise error
        self._decide(ProcessingError, f"{type(error).__name__}: {error}", error, operator, key)

    def not_serialized(self, error: Exception, why: str, sink: str, topic: str, key: Any) -> None:
        """A result could not be serialised. Always raises ProductionError: what is wrong is the program."""
        raise self._error(
            ProductionError, f"a result for topic {topic} cannot be serialised: {why}", sink, key
        ) from error

    def _decide(self, kind: Callable[..., RecordError], what: str, cause: Exception, operator: str, key: Any) -> None:
        error = self._error(kind, what, operator, key)
        error.__cause__ = cause
        if self.handler(error) is not HandlerResponse.RESUME:
            raise error
        self.dropped_records += 1

    def _error(self, kind: Callable[..., RecordError], what: str, operator: str, key: Any) -> RecordError:
        at = self.metadata()
        if at is None:
            return kind(what, operator=operator, key=key)
        return kind(what, operator=operator, topic=at.topic, partition=at.partition, offset=at.offset, key=key)
