"""State that the closures of one task share: the place, the headers and the time of the current record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordMetadata
from penstock.tasks.record_places import PlacedHeaders, RunCursor

if TYPE_CHECKING:
    from penstock.tasks.failures import Failures
    from penstock.tasks.idle_time import IdleTime


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

    ``failures`` decides about the errors of user code. The maker of a task's context sets it.
    ``headers`` and ``timestamp`` are set to the current record's before any code that reads them runs.
    ``emit_interval_ms``: least wall-clock time between two looks of an operator for windows that have closed.
    ``idle``: the operators whose time advances while no records come; None if there are none.
    ``punctuated_ms``: the time of the last punctuation, by the clock of its own.
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
        "dropped_records",
        "emit_interval_ms",
        "failures",
        "headers",
        "idle",
        "is_latest",
        "keeps_places",
        "partition",
        "punctuated_ms",
        "refuses_wall_clock",
        "remembered",
        "stream_time",
        "task_id",
        "timestamp",
        "wall_ms",
    )

    def __init__(self, application_id: str, task_id: TaskId) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.failures: Failures
        self.headers: Headers | None = None
        self.is_latest = True
        self.keeps_places = True
        self.refuses_wall_clock = False
        self.timestamp = -1
        self.punctuated_ms = -1
        self.stream_time = -1
        self.wall_ms = 0
        self.dropped_records = 0
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

    def place(self) -> tuple[TopicPartition | None, int]:
        """Returns partition and offset of the current record. In a flush they are those in the update's headers. None
        and −1 if there is none."""
        if self.partition is not None:
            return self.partition, self._cursor.offset
        return (self.headers.source, self.headers.offset) if isinstance(self.headers, PlacedHeaders) else (None, -1)

    @property
    def is_held_back(self) -> bool:
        """True if the current record is none of a run: a cache, ``suppress`` or a call has held it back."""
        return self.partition is None or self._cursor is not self._run

    def raw(self) -> tuple[bytes | None, bytes | None] | None:
        """Returns the bytes of the current record as it was read, if its headers have them."""
        return self.headers.raw if isinstance(self.headers, PlacedHeaders) else None

    def enter_held_back(
        self,
        source: TopicPartition | None,
        offset: int,
        headers: Headers | None,
        timestamp: int,
        raw: tuple[bytes | None, bytes | None] | None = None,
    ) -> Context:
        """Make a record that was held back current, until :meth:`leave_held_back` is called with what this returns."""
        before = self.partition, self._cursor, self.headers, self.timestamp
        self.partition = source
        self.headers = self._cursor = PlacedHeaders(source, offset, headers, raw)
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
