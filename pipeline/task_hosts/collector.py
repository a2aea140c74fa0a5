"""The output of a task on Spark: rows of the next shuffle, of sinks, and the last row of each key of a changelog."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from typing_extensions import override

from penstock.common.errors import MissingTopicError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import Headers
from penstock.pipeline.rows import CHANGELOG, OUTPUT_ARROW, REPARTITION, SINK, headers_row
from penstock.tasks.contracts import RecordCollector

_Row = tuple[bytes | None, bytes | None, int, Headers | None]
"""Key, value, timestamp and headers."""
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


class SparkCollector(RecordCollector):
    """A collector whose rows are taken out batch by batch; records of ``inner`` topics are appended to those instead.

    Changelog rows stay until the task has ended, one per key, so they take little more room than the stores do. The
    host must drop those that need not be written (:meth:`forget`), such as deletions of what the changelog never had.
    """

    def __init__(self, task_id: TaskId, topics: TopicCounts, inner: InnerTopics | None = None) -> None:
        self._task = task_id.partition
        self._writer = task_id.subtopology << 16 | task_id.partition
        self._topics = topics
        self._inner = inner
        self._sequence = 0
        self._kinds: list[str] = []
        self._names: list[str] = []
        self._partitions: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._headers: list[Headers | None] = []
        self._changelogs: dict[str, dict[bytes | None, tuple[bytes | None, int, Headers | None]]] = {}
        self._histories: dict[str, list[_Row]] = {}
        self._deletions: dict[str, set[tuple[bytes, int]]] = {}
        # Number of entries that the last clean-up left: the next one waits for twice as many, not for the next commit.
        self._rows_left: dict[str, int] = {}
        self._deletions_left: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kinds)

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
        if topic in self._topics.changelogs:
            rows = self._changelogs.setdefault(topic, {})
            rows.pop(key, None)  # else it keeps its place in the dict: rows leave in the order of their last update
            rows[key] = (value, timestamp, headers)
            if value is None and key is not None and topic in self._deletions:
                self._deletions[topic].add((key, timestamp))
            return
        kind = SINK
        if topic in self._topics.repartition:
            kind = REPARTITION
            if partition < 0:
                partition = self._default_partition(key, self._topics.partitions[topic])
            if self._inner is not None and topic in self._inner.topics:
                self._inner.send(topic, partition, key, value, timestamp, headers)
                return
        self._append(kind, topic, partition, key, value, timestamp, headers)

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

    def drain(self) -> pa.RecordBatch:
        """Returns the rows that were sent to sinks and shuffles since the last call, in order."""
        count = len(self)
        first, self._sequence = self._sequence, self._sequence + count
        headers = [headers_row(each) for each in self._headers] if any(self._headers) else [None] * count
        columns = (
            self._kinds,
            [self._writer] * count,
            self._names,
            self._partitions,
            list(range(first, first + count)),
            self._keys,
            self._values,
            self._timestamps,
            headers,
        )
        drained = _batch(columns)
        for column in (
            self._kinds,
            self._names,
            self._partitions,
            self._keys,
            self._values,
            self._timestamps,
            self._headers,
        ):
            column.clear()
        return drained

    @property
    def changelog_rows(self) -> int:
        """Number of changelog rows that wait for the end of the task."""
        return sum(map(len, self._changelogs.values()))

    def forget(self, topic: str, needless: Callable[[bytes, bytes | None], bool]) -> None:
        """Drop the rows of changelog ``topic`` for which ``needless(key, value)`` is True, once their number has
        doubled. Call it after a commit."""
        rows = self._changelogs.get(topic, {})
        if len(rows) > 2 * self._rows_left.get(topic, 0):
            kept = {key: row for key, row in rows.items() if key is None or not needless(key, row[0])}
            self._changelogs[topic], self._rows_left[topic] = kept, len(kept)

    def keep_deletions(self, topic: str) -> None:
        """From now on keep the times of deletions that are sent to changelog ``topic``, which has rows already: see
        :meth:`keep_histories`."""
        self._deletions[topic] = set()

    def forget_deletions(self, topic: str, before: int) -> None:
        """Drop the deletions kept for ``topic`` that are older than ``before``, once their number has doubled."""
        deletions = self._deletions[topic]
        if len(deletions) > 2 * self._deletions_left.get(topic, 0):
            self._deletions[topic] = kept = {entry for entry in deletions if entry[1] >= before}
            self._deletions_left[topic] = len(kept)

    def keep_histories(
        self, topic: str, history_of: Callable[[bytes], Sequence[tuple[bytes | None, int]] | None], kept_from: int
    ) -> None:
        """Write the history of each key of changelog ``topic`` instead of its last row, if ``history_of`` has one for
        all of them: rows then leave in the order of their timestamps.

        If ``topic`` has rows already, versions that these would restore but that are gone must be deleted: by the
        deletions sent since, and, as the store knows nothing of the time before ``kept_from``, by one of that time.
        """
        deleted_at: dict[bytes, set[int]] = {}
        for gone, timestamp in self._deletions.get(topic, ()):
            if timestamp >= kept_from:
                deleted_at.setdefault(gone, set()).add(timestamp)
        histories: list[_Row] = []
        for key in self._changelogs.get(topic, ()):
            history = None if key is None else history_of(key)
            if key is None or history is None:
                return
            histories += [(key, value, timestamp, None) for value, timestamp in history]
            if topic in self._deletions:
                deleted = deleted_at.get(key, set()).difference(timestamp for _, timestamp in history)
                if kept_from > 0 and (not history or history[0][1] > kept_from):
                    deleted.add(kept_from)
                histories += [(key, None, timestamp, None) for timestamp in deleted]
        self._histories[topic] = sorted(histories, key=lambda row: row[2])

    def release_changelogs(self) -> Iterable[int]:
        """Turn the rows kept for changelogs into rows for :meth:`drain`; yields the number waiting after each."""
        for topic, rows in self._changelogs.items():
            last = ((key, *row) for key, row in rows.items())
            for key, value, timestamp, headers in self._histories.get(topic, last):
                self._append(CHANGELOG, topic, self._task, key, value, timestamp, headers)
                yield len(self._kinds)
        self._changelogs.clear()
        self._histories.clear()

    def _append(
        self,
        kind: str,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        self._kinds.append(kind)
        self._names.append(topic)
        self._partitions.append(partition)
        self._keys.append(key)
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._headers.append(headers)

    def _default_partition(self, key: bytes | None, count: int) -> int:
        # Kafka's producers put a record without key anywhere; here every attempt must choose the same partition.
        return self._task % count if key is None else partition_for(key, count)


def _batch(columns: Iterable[Sequence[object]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_ARROW)
