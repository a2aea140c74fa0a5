"""The Spark executor as host of tasks: Arrow batches in, Arrow batches out, one task at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.rows import DROPPED, OFFSET, READ, RESTORE, headers_of
from penstock.pipeline.task_hosts.collector import InnerTopics, SparkCollector, TopicCounts
from penstock.pipeline.task_hosts.global_topics import GlobalTopics, may_look_into_global_stores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.tasks.wiring import Store
from penstock.topology.physical.topology import Subtopology

_RECORDS_PER_STEP = 1000
_ROWS_PER_BATCH = 10_000
_SMALLEST_COMMIT_BYTES = 8 << 20
_CHANGELOG_ROWS_BETWEEN_COMMITS = 100_000


@dataclass(frozen=True)
class TaskHost:
    """Runs the tasks of one sub-topology over rows of ``INPUT_SCHEMA``; ``run`` is given to ``mapInArrow``.

    The rows of a task come together: first those that restore its stores, then its records in the order in which the
    live task would take them. Any number of tasks may follow each other.
    """

    subtopology: Subtopology
    config: StreamsConfig
    topics: TopicCounts
    committed: Mapping[TopicPartition, CommittedOffset]
    global_topics: GlobalTopics | None = None
    allow_wall_clock: bool = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields rows of ``OUTPUT_SCHEMA`` while rows come in."""
        program = program_of(self.subtopology, self.config)
        task: TaskRun | None = None
        global_stores: Mapping[str, Store] = {}
        if self.global_topics is not None and may_look_into_global_stores(self.subtopology):
            global_stores = self.global_topics.stores(self.config)
        for batch in batches:
            for number, phase, rows in segments(batch):
                if task is None or task.number != number:
                    if task is not None:
                        yield from task.finish()
                    task = TaskRun(self, program, TaskId(self.subtopology.id, number), global_stores)
                if phase == RESTORE:
                    task.restore(rows)
                else:
                    yield from task.process(rows)
        if task is not None:
            yield from task.finish()


class Host(Protocol):
    """The attributes of a host that its tasks need."""

    @property
    def topics(self) -> TopicCounts:
        """Partition counts of all topics, and which of them are internal."""

    @property
    def allow_wall_clock(self) -> bool:
        """False if a schedule of a punctuator by the wall clock, which is never called, is an error."""

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The offsets that the application has committed."""


def program_of(subtopology: Subtopology, config: StreamsConfig) -> TaskProgram:
    """Returns the program of its tasks. Rows arrive merged by time: an empty partition need not be waited for."""
    return TaskProgram.of([subtopology], config.model_copy(update={"max_task_idle_ms": -1}))


class TaskRun:
    """One task from its first row to its last. Its stores are in memory; their content at the end goes to Kafka.

    ``inner``: the topics by which it writes to the tasks of its cycle. ``budget`` is shared with these tasks.
    """

    def __init__(
        self,
        host: Host,
        program: TaskProgram,
        task_id: TaskId,
        global_stores: Mapping[str, Store],
        inner: InnerTopics | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.number = number = task_id.partition
        self._collector = SparkCollector(task_id, host.topics, inner)
        stores = open_task_stores(None, program.stores.values())
        self._state_manager = StateManager(task_id, program, stores, self._collector, budget)
        # Records of a shuffle are numbered as they come; those of the topic will have the same numbers.
        self._state_manager.context.keeps_places = False
        self._state_manager.context.refuses_wall_clock = not host.allow_wall_clock
        self._task = Task(self._state_manager, self._collector, global_stores, clock_is_frozen=True)
        self._changelogs = program.changelogs
        # If the rows of a store expire, its changelog deletes them, too.
        self._expiring = {
            name
            for name, builder in program.stores.items()
            if name in program.changelogs and "delete" in builder.changelog_config(0).get("cleanup.policy", "")
        }
        self._changelog_is_empty = set(program.changelogs)
        self._with_deletions: list[str] = []
        """Stores with histories whose changelogs have rows: what is deleted in the store must be deleted there, too."""
        self._repartition = host.topics.repartition
        self._committed = {
            tp: offset
            for tp, offset in host.committed.items()
            if tp.partition == number and tp.topic in program.sources
        }
        self._state_manager.continue_from(self._committed)
        self._commit_bytes = max(program.config.statestore_cache_max_bytes, _SMALLEST_COMMIT_BYTES)
        self._most_rows = _CHANGELOG_ROWS_BETWEEN_COMMITS
        self._wall_ms = int(time.time() * 1000)
        self._read: dict[str, int] = {}
        self._begun = False

    def restore(self, rows: pa.RecordBatch) -> None:
        """Restore stores from changelog rows, whose topic is the store's name."""
        for store, own in by_topic(rows):
            self._changelog_is_empty.discard(store)
            unfinished = own.column("source")
            self._restore_rows(store, own.filter(pc.equal(unfinished, 0)))
            self._supersede(store, own.filter(pc.not_equal(unfinished, 0)).column("key").to_pylist())

    def _restore_rows(self, store: str, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._state_manager.restore(
                store,
                rows.column("key").to_pylist(),
                rows.column("value").to_pylist(),
                rows.column("timestamp").to_pylist(),
                rows.column("sequence")[-1].as_py() + 1,
                headers_of(rows.column("headers")),
            )

    def _supersede(self, store: str, keys: list[bytes]) -> None:
        """Write ``keys``, which an unfinished backfill wrote, with the values that they have without that backfill."""
        opened, topic = self._state_manager.store(store), self._changelogs[store].topic
        headers = self._state_manager.program.stores[store].changelog_headers
        for key in keys:
            value, timestamp = opened.changelog_record(key)
            own = None if value is None else opened.changelog_headers(key) or headers
            self._collector.send(topic, key, value, timestamp, own, self.number)

    def process(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Process records of all topics, in the task's order, and commit if that is due."""
        self._begin()
        for topic, own in by_topic(rows):
            self._task.add(self._record_batch(topic, own))
        yield from self._work()
        yield from self.commit_if_full()

    def take(self, batch: RecordBatch) -> Iterator[pa.RecordBatch]:
        """Process records of one topic, without a commit. If their offsets are not known, :meth:`numbered` returns
        them."""
        self._begin()
        self._task.add(batch)
        yield from self._work()

    def take_one(
        self, partition: TopicPartition, key: bytes | None, value: bytes | None, timestamp: int, offset: int
    ) -> Iterator[pa.RecordBatch]:
        """Process one record without headers, without a commit."""
        self._begin()
        if self._task.process_alone(partition, key, value, timestamp, offset, self._wall_ms):
            yield from self._drain(_ROWS_PER_BATCH)
        else:
            yield from self.take(RecordBatch(partition, [key], [value], [timestamp], [offset]))

    def numbered(self, topic: str, count: int) -> Sequence[int]:
        """Count the next ``count`` records of ``topic`` as read; returns their numbers, for a repartition topic."""
        begin = self._read.get(topic, 0)
        self._read[topic] = begin + count
        return range(begin, begin + count)

    def commit_if_full(self) -> Iterator[pa.RecordBatch]:
        """Commit if caches, or the changelog rows that are kept, have become large."""
        if self._state_manager.cache_bytes() > self._commit_bytes or self._collector.changelog_rows > self._most_rows:
            yield from self.commit()
            # Twice what is left, so that not every commit looks at all of them.
            self._most_rows = 2 * self._collector.changelog_rows + _CHANGELOG_ROWS_BETWEEN_COMMITS

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Make the last commit, and hand over changelog rows and reports."""
        yield from self.commit()
        yield from self.hand_over()

    def hand_over(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the changelogs and the reports, after the last commit, and closes the task."""
        for store, changelog in self._changelogs.items():
            opened = self._state_manager.store(store)
            self._collector.keep_histories(changelog.topic, opened.changelog_history, opened.histories_kept_from)
        for waiting in self._collector.release_changelogs():
            if waiting >= _ROWS_PER_BATCH:
                yield self._collector.drain()
        yield from self._drain(1)
        for partition, offset in self._task.offsets().items():
            yield self._collector.report(OFFSET, *partition, offset.offset, offset.metadata)
        for topic, count in self._read.items():
            yield self._collector.report(READ, topic, self.number, count)
        if dropped := self._task.metrics().dropped_records_total:
            yield self._collector.report(DROPPED, "", self.number, dropped)
        self._task.close()

    def _begin(self) -> None:
        if not self._begun:
            self._task.resume(self._committed)
            self._task.init(self._wall_ms)
            for store in self._changelogs.keys() - self._changelog_is_empty:
                if self._state_manager.store(store).changelog_history(b"") is not None:  # has some, for any key
                    self._with_deletions.append(store)
                    self._collector.keep_deletions(self._changelogs[store].topic)
            self._begun = True

    def _record_batch(self, topic: str, rows: pa.RecordBatch) -> RecordBatch:
        numbers = self.numbered(topic, len(rows))
        # A repartition topic is never written here: its records are numbered as they come.
        shuffled = topic in self._repartition
        return RecordBatch(
            TopicPartition(topic, self.number),
            rows.column("key").to_pylist(),
            rows.column("value").to_pylist(),
            rows.column("timestamp").to_pylist(),
            numbers if shuffled else rows.column("sequence").to_pylist(),
            headers_of(rows.column("headers")),
        )

    def _work(self) -> Iterator[pa.RecordBatch]:
        while self._task.process(_RECORDS_PER_STEP, self._wall_ms):
            yield from self._drain(_ROWS_PER_BATCH)

    def commit(self) -> Iterator[pa.RecordBatch]:
        """Commit, so that caches release what they hold back."""
        self._begin()
        for _ in self._task.prepare_commit():
            yield from self._drain(_ROWS_PER_BATCH)
        yield from self._drain(1)
        self._task.complete_commit({})
        for store in self._with_deletions:
            kept_from = self._state_manager.store(store).histories_kept_from
            self._collector.forget_deletions(self._changelogs[store].topic, kept_from)
        for store in self._expiring | self._changelog_is_empty:
            self._collector.forget(self._changelogs[store].topic, self._needless(store))

    def _needless(self, store: str) -> Callable[[bytes, bytes | None], bool]:
        """Returns a test for needless changelog rows: expired ones, and deletions of what the changelog never had."""
        opened = self._state_manager.store(store)
        expires, had_nothing = store in self._expiring, store in self._changelog_is_empty

        def needless(key: bytes, value: bytes | None) -> bool:
            if value is None:
                return had_nothing and opened.changelog_history(key) is None
            return expires and opened.changelog_record(key)[0] is None

        return needless

    def _drain(self, at_least: int) -> Iterator[pa.RecordBatch]:
        if len(self._collector) >= at_least:
            yield self._collector.drain()


def segments(batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Yields task, phase and rows for each run of rows that have the same task and phase."""
    start = 0
    pairs = zip(batch.column("task").to_pylist(), batch.column("phase").to_pylist(), strict=True)
    for (number, phase), same in groupby(pairs):
        length = sum(1 for _ in same)
        yield number, phase, batch.slice(start, length)
        start += length


def by_topic(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields each topic with its rows."""
    column = rows.column("topic")
    topics = sorted(pc.unique(column).to_pylist())
    for topic in topics:
        yield topic, rows if len(topics) == 1 else rows.filter(pc.equal(column, topic))
