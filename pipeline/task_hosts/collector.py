"""The output of a task on Spark: rows of sinks, of the next shuffle, and of changelogs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import pyarrow as pa
from typing_extensions import override

from penstock.common.errors import MissingTopicError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers
from penstock.pipeline.rows import CHANGELOG, END, OUTPUT_ARROW, REPARTITION, SINK, headers_row
from penstock.pipeline.task_hosts.changelogs import Put
from penstock.pipeline.task_hosts.contracts import EndRow
from penstock.tasks.contracts import RecordCollector, Send

Columns = tuple[list[bytes | None], list[bytes | None], list[int], list[Headers | None]]
"""Keys, values, timestamps and headers of many records."""
_MOST_ROWS = 10_000
_MOST_BYTES = 32 << 20
"""Bytes of values that wait, after which they are taken out, too. Arrow's batches have room for 2 GB."""
PartitionOf = Callable[["bytes | None"], int]
"""Returns the partition for a key."""


class TopicCounts(NamedTuple):
    """Number of partitions of each topic, and the names of those that are repartition topics or changelogs."""

    partitions: Mapping[str, int]
    repartition: frozenset[str]
    changelogs: frozenset[str]


class Inner(Protocol):
    """Takes what a task writes to the repartition topics of its cycle, which are ``topics``."""

    topics: frozenset[str]

    def sender(self, topic: str, partition_of: PartitionOf) -> Send:
        """Returns the function that sends to ``topic``, to the partition that it is given or else the one that
        ``partition_of`` returns for the key."""

    def rows(self) -> Iterable[Rows]:
        """Returns rows that wait for :meth:`SparkCollector.drain`."""


class InnerTopics(Inner):
    """The repartition topics by which the tasks of a cycle write to each other, and their unread records."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self._unread: dict[TopicPartition, Columns] = {}
        self._order: deque[TopicPartition] = deque()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        """Append a record."""
        to = TopicPartition(topic, partition)
        unread = self._unread.get(to)
        if unread is None:
            unread = self._unread[to] = ([], [], [], [])
            self._order.append(to)
        keys, values, timestamps, each_headers = unread
        keys.append(key)
        values.append(value)
        timestamps.append(timestamp)
        each_headers.append(headers)

    @override
    def sender(self, topic: str, partition_of: PartitionOf) -> Send:
        def send(
            topic: str,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers | None = None,
            partition: int = -1,
        ) -> None:
            self.send(topic, partition if partition >= 0 else partition_of(key), key, value, timestamp, headers)

        return send

    @override
    def rows(self) -> Iterable[Rows]:
        return ()

    @property
    def unread(self) -> bool:
        """True if records wait to be read."""
        return bool(self._order)

    def take(self) -> tuple[TopicPartition, Columns] | None:
        """Take out all unread records of the partition whose first one waits longest; None if everything is read."""
        if not self._order:
            return None
        partition = self._order.popleft()
        return partition, self._unread.pop(partition)


class Rows:
    """The rows of one topic that wait for :meth:`SparkCollector.drain`, as columns."""

    __slots__ = ("_bytes", "_counted", "headers", "keys", "kind", "partitions", "timestamps", "topic", "values")

    def __init__(self, kind: str, topic: str) -> None:
        self.kind = kind
        self.topic = topic
        self.partitions: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers | None] = []
        self._bytes = self._counted = 0

    def bytes(self) -> int:
        """Returns the bytes of the values that wait. Each is counted once."""
        for value in self.values[self._counted :]:
            if value is not None:
                self._bytes += len(value)
        self._counted = len(self.values)
        return self._bytes

    def taken(self, writer: int, first: int) -> pa.RecordBatch:
        """Returns the rows with their numbers from ``first`` on, and takes them out."""
        return self._taken(writer, range(first, first + len(self.keys)), None)

    def _taken(self, writer: int, numbers: Sequence[int], due: Sequence[int] | None) -> pa.RecordBatch:
        count, types = len(self.keys), OUTPUT_ARROW.types
        front = (self.kind, writer, self.topic)
        headers = [headers_row(each) for each in self.headers] if any(self.headers) else None
        columns = (self.partitions, numbers, self.keys, self.values, self.timestamps)
        arrays = [
            *(pa.repeat(pa.scalar(same, type), count) for same, type in zip(front, types[:3], strict=True)),
            *(pa.array(column, type) for column, type in zip(columns, types[3:8], strict=True)),
            pa.nulls(count, types[8]) if headers is None else pa.array(headers, types[8]),
            pa.nulls(count, types[9]) if due is None else pa.array(due, types[9]),
        ]
        taken = pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_ARROW)
        for column in (self.partitions, self.keys, self.values, self.timestamps, self.headers):
            column.clear()
        self._bytes = self._counted = 0
        return taken


class RowsOfPass(Rows):
    """Rows for a later pass over the cycle, each with the place in the cycle's order of the record that led to it."""

    __slots__ = ("due", "places")

    def __init__(self, topic: str) -> None:
        super().__init__(REPARTITION, topic)
        self.due: list[int] = []
        self.places: list[int] = []

    @override
    def taken(self, writer: int, first: int) -> pa.RecordBatch:
        taken = self._taken(writer, self.places, self.due)
        self.due.clear()
        self.places.clear()
        return taken


class SparkCollector(RecordCollector):
    """A collector whose rows are taken out batch by batch; records of ``inner`` topics are appended to those instead.

    Records of changelogs go to :attr:`changelogs`, by topic; those of other changelogs are not kept.
    """

    def __init__(self, task_id: TaskId, topics: TopicCounts, inner: Inner | None = None) -> None:
        self.changelogs: dict[str, Put] = {}
        self._task = task_id.partition
        self._writer = task_id.subtopology << 16 | task_id.partition
        self._topics = topics
        self._inner = inner
        self._sequence = 0
        self._rows: dict[str, Rows] = {}
        self._ends: dict[str, Rows] = {}

    def __len__(self) -> int:
        return sum([len(rows.keys) for rows in self._waiting()])

    def is_full(self) -> bool:
        """Returns True if so many rows wait, or so large ones, that they should be taken out."""
        count = size = 0
        for rows in self._waiting():
            if rows.keys:
                count += len(rows.keys)
                size += rows.bytes()
        return count >= _MOST_ROWS or size >= _MOST_BYTES

    def _waiting(self) -> list[Rows]:
        return [*self._rows.values(), *(() if self._inner is None else self._inner.rows())]

    @override
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        put = self.changelogs.get(topic)
        if put is not None:
            assert key is not None
            put(key, value, timestamp, headers)
        elif topic not in self._topics.changelogs:
            self.sender(topic)(topic, key, value, timestamp, headers, partition)

    def sender(self, topic: str) -> Send:
        """Returns the function that sends to ``topic``, of a sink."""
        shuffled = topic in self._topics.repartition
        if shuffled and self._inner is not None and topic in self._inner.topics:
            return self._inner.sender(topic, partial(self._partition_of, self._topics.partitions[topic]))
        rows = self._rows.get(topic)
        if rows is None:
            rows = self._rows[topic] = Rows(REPARTITION if shuffled else SINK, topic)
        count = self._topics.partitions[topic] if shuffled else 0
        add_partition, add_key, add_value = rows.partitions.append, rows.keys.append, rows.values.append
        add_timestamp, add_headers, own_partition = rows.timestamps.append, rows.headers.append, self._own_partition

        def send(
            topic: str,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers | None = None,
            partition: int = -1,
        ) -> None:
            if partition < 0 and count:
                partition = own_partition(count) if key is None else partition_for(key, count)
            add_partition(partition)
            add_key(key)
            add_value(value)
            add_timestamp(timestamp)
            add_headers(headers)

        return send

    def _partition_of(self, count: int, key: bytes | None) -> int:
        return self._own_partition(count) if key is None else partition_for(key, count)

    @override
    def partitions(self, topic: str) -> int:
        count = self._topics.partitions.get(topic)
        if count is None:
            raise MissingTopicError(f"topic {topic!r} does not exist: create it before the backfill writes it")
        return count

    def report(self, kind: str, topic: str, partition: int, number: int, text: str = "") -> pa.RecordBatch:
        """Returns one row that is a report, and no record of a topic."""
        row = [kind, self._writer, topic, partition, number, None, text.encode(), 0, None, None]
        return _batch([column] for column in row)

    def put_end(self, row: EndRow) -> None:
        """Add a row of the task's end to the rows for :meth:`drain`."""
        rows = self._ends.get(row.store)
        if rows is None:
            rows = self._ends[row.store] = self._rows[f"end of {row.store}"] = Rows(END, row.store)
        rows.partitions.append(row.number)
        rows.keys.append(row.key)
        rows.values.append(row.row)
        rows.timestamps.append(0)
        rows.headers.append(None)

    def put_changelog(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers | None
    ) -> None:
        """Add a record of a changelog to the rows for :meth:`drain`."""
        rows = self._rows.get(topic)
        if rows is None:
            rows = self._rows[topic] = Rows(CHANGELOG, topic)
        rows.partitions.append(self._task)
        rows.keys.append(key)
        rows.values.append(value)
        rows.timestamps.append(timestamp)
        rows.headers.append(headers)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that were sent to sinks and shuffles since the last call: those of each topic in order."""
        for rows in self._waiting():
            if count := len(rows.keys):
                first, self._sequence = self._sequence, self._sequence + count
                yield rows.taken(self._writer, first)

    def _own_partition(self, count: int) -> int:
        # Kafka's producers put a record without key anywhere; here every attempt must choose the same partition.
        return self._task % count


def _batch(columns: Iterable[Sequence[object]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_ARROW)
