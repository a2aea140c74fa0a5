"""The output of a task on Spark: rows of sinks, of the next shuffle, and of changelogs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from typing_extensions import override

from penstock.common.errors import MissingTopicError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers
from penstock.pipeline.rows import CHANGELOG, OUTPUT_ARROW, REPARTITION, SINK, headers_row
from penstock.pipeline.task_hosts.changelogs import Put
from penstock.tasks.contracts import RecordCollector, Send

Columns = tuple[list[bytes | None], list[bytes | None], list[int], list[Headers | None]]
"""Keys, values, timestamps and headers of many records."""


class TopicCounts(NamedTuple):
    """Number of partitions of each topic, and the names of those that are repartition topics or changelogs."""

    partitions: Mapping[str, int]
    repartition: frozenset[str]
    changelogs: frozenset[str]


class InnerTopics:
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


class _Rows:
    """The rows of one topic that wait for :meth:`SparkCollector.drain`, as columns."""

    __slots__ = ("headers", "keys", "kind", "partitions", "timestamps", "topic", "values")

    def __init__(self, kind: str, topic: str) -> None:
        self.kind = kind
        self.topic = topic
        self.partitions: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers | None] = []

    def taken(self, writer: int, first: int) -> pa.RecordBatch:
        """Returns the rows with their numbers from ``first`` on, and takes them out."""
        count, types = len(self.keys), OUTPUT_ARROW.types
        front = (self.kind, writer, self.topic)
        headers = [headers_row(each) for each in self.headers] if any(self.headers) else None
        columns = (self.partitions, range(first, first + count), self.keys, self.values, self.timestamps)
        arrays = [
            *(pa.repeat(pa.scalar(same, type), count) for same, type in zip(front, types[:3], strict=True)),
            *(pa.array(column, type) for column, type in zip(columns, types[3:8], strict=True)),
            pa.nulls(count, types[8]) if headers is None else pa.array(headers, types[8]),
        ]
        taken = pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_ARROW)
        for column in (self.partitions, self.keys, self.values, self.timestamps, self.headers):
            column.clear()
        return taken


class SparkCollector(RecordCollector):
    """A collector whose rows are taken out batch by batch; records of ``inner`` topics are appended to those instead.

    Records of changelogs go to :attr:`changelogs`, by topic; those of other changelogs are not kept.
    """

    def __init__(self, task_id: TaskId, topics: TopicCounts, inner: InnerTopics | None = None) -> None:
        self.changelogs: dict[str, Put] = {}
        self._task = task_id.partition
        self._writer = task_id.subtopology << 16 | task_id.partition
        self._topics = topics
        self._inner = inner
        self._sequence = 0
        self._rows: dict[str, _Rows] = {}

    def __len__(self) -> int:
        return sum([len(rows.keys) for rows in self._rows.values()])

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
            return self._inner_sender(self._inner, self._topics.partitions[topic])
        rows = self._rows.get(topic)
        if rows is None:
            rows = self._rows[topic] = _Rows(REPARTITION if shuffled else SINK, topic)
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

    def _inner_sender(self, inner: InnerTopics, count: int) -> Send:
        def send(
            topic: str,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers | None = None,
            partition: int = -1,
        ) -> None:
            if partition < 0:
                partition = self._own_partition(count) if key is None else partition_for(key, count)
            inner.send(topic, partition, key, value, timestamp, headers)

        return send

    @override
    def partitions(self, topic: str) -> int:
        count = self._topics.partitions.get(topic)
        if count is None:
            raise MissingTopicError(f"topic {topic!r} does not exist: create it before the backfill writes it")
        return count

    def report(self, kind: str, topic: str, partition: int, number: int, text: str = "") -> pa.RecordBatch:
        """Returns one row that is a report, and no record of a topic."""
        row = [kind, self._writer, topic, partition, number, None, text.encode(), 0, None]
        return _batch([column] for column in row)

    def put_changelog(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers | None
    ) -> None:
        """Add a record of a changelog to the rows for :meth:`drain`."""
        rows = self._rows.get(topic)
        if rows is None:
            rows = self._rows[topic] = _Rows(CHANGELOG, topic)
        rows.partitions.append(self._task)
        rows.keys.append(key)
        rows.values.append(value)
        rows.timestamps.append(timestamp)
        rows.headers.append(headers)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that were sent to sinks and shuffles since the last call: those of each topic in order."""
        for rows in list(self._rows.values()):
            if count := len(rows.keys):
                first, self._sequence = self._sequence, self._sequence + count
                yield rows.taken(self._writer, first)

    def _own_partition(self, count: int) -> int:
        # Kafka's producers put a record without key anywhere; here every attempt must choose the same partition.
        return self._task % count


def _batch(columns: Iterable[Sequence[object]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_ARROW)
