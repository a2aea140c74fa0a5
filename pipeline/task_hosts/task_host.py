"""The Spark executor as host of tasks: records in, Arrow batches out, one task at a time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec
import pyarrow as pa

from penstock.common.calls_at_once import CallsAtOnce
from penstock.common.config import StreamsConfig
from penstock.common.errors import RetriableError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.patience import Patience
from penstock.common.records import Headers, RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.rows import CHECKPOINT, DROPPED, OFFSET, READ
from penstock.pipeline.task_hosts.changelogs import TaskChangelog, changelog_of, must_commit
from penstock.pipeline.task_hosts.checkpoints import CheckpointUpload
from penstock.pipeline.task_hosts.collector import Inner, SparkCollector, TopicCounts
from penstock.pipeline.task_hosts.contracts import EndRow, RestoredRows, StageInput, TaskEnd
from penstock.pipeline.task_hosts.global_topics import GlobalTopics, may_look_into_global_stores
from penstock.pipeline.task_hosts.stores import TaskDisk, new_run_id, remove_left
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.tasks.wiring import Store
from penstock.topology.physical.topology import Subtopology

_RECORDS_PER_STEP = 1000
_SMALLEST_COMMIT_BYTES = 8 << 20
_CALL_THREADS = 64
"""Plain functions that call out at the same time, in one task."""
_PATIENCE = Patience(60.0, lambda error: error)
"""With a serde that cannot answer, for each record that waits for it."""


@dataclass(frozen=True)
class HostSettings:
    """Settings that all hosts of a run share, whatever tasks they run.

    ``topics``: the numbers of partitions, and the names of internal topics. ``committed``: the offsets that the
    application has committed. ``allow_wall_clock``: False if a punctuator by the wall clock, which is never called, is
    an error. ``at_end`` takes the stores at the end of a task, in place of the changelogs; None: these are written.
    ``checkpoints`` uploads the stores at the end of a task, beside the changelogs; None: they are not uploaded.
    ``run_id``: the text by which the directories of its tasks differ from those of other runs.
    """

    config: StreamsConfig
    topics: TopicCounts
    committed: Mapping[TopicPartition, CommittedOffset]
    global_topics: GlobalTopics | None = None
    allow_wall_clock: bool = False
    at_end: TaskEnd | None = None
    checkpoints: CheckpointUpload | None = None
    run_id: str = field(default_factory=new_run_id)

    def global_stores(self, subtopologies: Iterable[Subtopology]) -> Mapping[str, Store]:
        """Returns the global stores, filled, if one of ``subtopologies`` may read them."""
        if self.global_topics is not None and any(map(may_look_into_global_stores, subtopologies)):
            return self.global_topics.stores(self.config)
        return {}


@dataclass(frozen=True)
class TaskHost:
    """Runs the tasks of one sub-topology: restores their stores, then processes their records in the order in which a
    live task would take them."""

    subtopology: Subtopology
    settings: HostSettings

    def run(self, tasks: Iterable[int], given: StageInput) -> Iterator[pa.RecordBatch]:
        """Yields rows of ``OUTPUT_SCHEMA`` while the tasks of these numbers take their input, one task at a time. A
        task without input yields none."""
        remove_left()
        program = program_of(self.subtopology, self.settings.config)
        global_stores: Mapping[str, Store] | None = None
        for number in tasks:
            with ExitStack() as opened:
                records = opened.enter_context(closing(given.open([number])))
                task: TaskRun | None = None
                steps: Iterable[RestoredRows | Chunk] = chain(records.restored(), records.chunks())
                for step in steps:
                    if global_stores is None:
                        global_stores = self.settings.global_stores([self.subtopology])
                    if task is None:
                        task = self._task(program, TaskId(self.subtopology.id, number), global_stores)
                        opened.callback(task.close)
                    if isinstance(step, RestoredRows):
                        task.restore(step)
                    else:
                        yield from self._process(task, step)
                if task is not None:
                    yield from self._finish(task)

    def _task(self, program: TaskProgram, task_id: TaskId, global_stores: Mapping[str, Store]) -> TaskRun:
        return TaskRun(self.settings, program, task_id, global_stores)

    def _process(self, task: TaskRun, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        yield from task.process(chain.from_iterable(chunk.partitions))

    def _finish(self, task: TaskRun) -> Iterator[pa.RecordBatch]:
        yield from task.finish()


def program_of(subtopology: Subtopology, config: StreamsConfig) -> TaskProgram:
    """Returns the program of its tasks. Rows arrive merged by time: an empty partition need not be waited for. Its
    serdes are ready to write, as before the first record of a live task: a schema that is refused ends the run here."""
    program = TaskProgram.of([subtopology], config.model_copy(update={"max_task_idle_ms": -1}))
    for attempt in itertools.count(1):
        try:
            program.prepare_serdes()
            break
        except RetriableError as error:
            _PATIENCE.wait(error, attempt)
    return program


class TaskRun:
    """One task from its first row to its last. Its stores are on the executor's disk; their content at the end goes to
    Kafka.

    ``inner``: the topics by which it writes to the tasks of its cycle. ``budget`` is shared with these tasks.
    """

    def __init__(
        self,
        settings: HostSettings,
        program: TaskProgram,
        task_id: TaskId,
        global_stores: Mapping[str, Store],
        inner: Inner | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.number = number = task_id.partition
        self._collector = SparkCollector(task_id, settings.topics, inner)
        self._disk = TaskDisk(f"{program.config.application_id}-{settings.run_id}", task_id)
        stores = self._disk.open("stores", program.stores.values())
        self._state_manager = StateManager(task_id, program, stores, self._collector, budget)
        # Records of a shuffle are numbered as they come; those of the topic will have the same numbers.
        self._state_manager.context.keeps_places = False
        self._state_manager.context.failures.wait = _PATIENCE.wait
        self._state_manager.context.refuses_wall_clock = not settings.allow_wall_clock
        self._task = Task(
            self._state_manager,
            self._collector,
            global_stores,
            clock_is_frozen=True,
            sender_of=lambda _, topic: self._collector.sender(topic),
            call_runner=CallsAtOnce(_CALL_THREADS, waits=True),
        )
        self._changelogs: dict[str, TaskChangelog] = {}
        """By store, from the first record on."""
        self._at_end, self._checkpoints, self._id = settings.at_end, settings.checkpoints, task_id
        logged = program.changelogs.items() if settings.at_end is None else ()
        self._topics = {name: each.topic for name, each in logged if not each.is_source_topic}
        # If the rows of a store expire, its changelog deletes them, too.
        self._expiring = {
            name
            for name, builder in program.stores.items()
            if name in program.changelogs and "delete" in builder.changelog_config(0).get("cleanup.policy", "")
        }
        self._changelog_is_empty = set(program.changelogs)
        self._repartition = settings.topics.repartition
        self._committed = {
            tp: offset
            for tp, offset in settings.committed.items()
            if tp.partition == number and tp.topic in program.sources
        }
        self._state_manager.continue_from(self._committed)
        self._commit_bytes = max(program.config.statestore_cache_max_bytes, _SMALLEST_COMMIT_BYTES)
        self._wall_ms = int(time.time() * 1000)
        self._read: dict[str, int] = {}
        self._waiting: list[RecordBatch] = []
        self._begun = False
        self._closed = False

    def restore(self, restored: RestoredRows) -> None:
        """Restore a store from rows of its changelog, or supersede those of an unfinished backfill."""
        store, rows = restored.store, restored.rows
        self._changelog_is_empty.discard(store)
        if restored.unfinished:
            self._supersede(store, [key for key in rows.keys if key is not None])
        else:
            self._state_manager.restore(
                store, rows.keys, rows.values, rows.timestamps, rows.offsets[-1] + 1, rows.headers
            )

    def _supersede(self, store: str, keys: list[bytes]) -> None:
        """Write ``keys``, which an unfinished backfill wrote, with the values that they have without that backfill."""
        if not keys:
            return
        opened, changelog = self._state_manager.store(store), self._changelog(store)
        headers = self._state_manager.program.stores[store].changelog_headers
        for key in keys:
            if opened.changelog_history(key) is not None:
                changelog.put(key, b"", 0, None)  # its history is written at the end, whatever this record is
                continue
            value, timestamp = opened.changelog_record(key)
            own = None if value is None else opened.changelog_headers(key) or headers
            changelog.put(key, value, timestamp, own)

    def _changelog(self, store: str) -> TaskChangelog:
        """Returns the changelog of ``store``, of which all is restored."""
        changelog = self._changelogs.get(store)
        if changelog is None:
            topic = self._topics[store]
            changelog = self._changelogs[store] = changelog_of(
                topic,
                self._state_manager.store(store),
                self._disk,
                was_empty=store in self._changelog_is_empty,
                expires=store in self._expiring,
                logs_headers=self._state_manager.program.stores[store].logs_headers,
            )
            self._collector.changelogs[topic] = changelog.put
        return changelog

    def process(self, batches: Iterable[RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process records of all topics, in the task's order, and commit if that is due."""
        self._begin()
        for batch in batches:
            topic = batch.partition.topic
            numbers = self.numbered(topic, len(batch))
            # A repartition topic is never written here: its records are numbered as they come.
            self._task.add(replace(batch, offsets=numbers) if topic in self._repartition else batch)
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
            yield from self._drain_if_full()
        else:
            yield from self.take(RecordBatch(partition, [key], [value], [timestamp], [offset]))

    def let_wait(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        offset: int,
        headers: Headers | None,
    ) -> None:
        """Keep one record for :meth:`take_waiting`, after those that wait."""
        if not self._waiting or self._waiting[-1].partition != partition:
            self._waiting.append(RecordBatch(partition, [], [], [], [], []))
        batch = self._waiting[-1]
        assert isinstance(batch.offsets, list)
        assert batch.headers is not None
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps.append(timestamp)
        batch.offsets.append(offset)
        batch.headers.append(headers)

    def take_waiting(self) -> Iterator[pa.RecordBatch]:
        """Process the records that wait, in their order."""
        waiting, self._waiting = self._waiting, []
        for batch in waiting:
            if not any(batch.headers or ()):
                batch.headers = None
            yield from self.take(batch)

    def numbered(self, topic: str, count: int) -> Sequence[int]:
        """Count the next ``count`` records of ``topic`` as read; returns their numbers, for a repartition topic."""
        begin = self._read.get(topic, 0)
        self._read[topic] = begin + count
        return range(begin, begin + count)

    def commit_if_full(self) -> Iterator[pa.RecordBatch]:
        """Commit if updates that wait, or records of changelogs in memory, are many."""
        manager = self._state_manager
        if (
            manager.cache_bytes() > self._commit_bytes
            or manager.budget.needs_commit
            or must_commit(self._changelogs.values())
        ):
            yield from self.commit()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Make the last commit, and hand over changelog rows and reports."""
        yield from self.commit()
        yield from self.hand_over()

    def hand_over(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the changelogs and the reports, after the last commit, and closes the task. Its stores
        are uploaded before that, if they are handed over as checkpoints."""
        for store, topic in self._topics.items():
            for row in self._changelogs[store].rows():
                self._collector.put_changelog(topic, *row)
                yield from self._drain_if_full()
        for end_row in self._end_rows():
            self._collector.put_end(end_row)
            yield from self._drain_if_full()
        yield from self._drain()
        for partition, offset in self._task.offsets().items():
            yield self._collector.report(OFFSET, *partition, offset.offset, offset.metadata)
        for topic, count in self._read.items():
            yield self._collector.report(READ, topic, self.number, count)
        if dropped := self._task.metrics().dropped_records_total:
            yield self._collector.report(DROPPED, "", self.number, dropped)
        if self._checkpoints is not None and (part := self._checkpoints.upload(self._state_manager, self._disk)):
            text = msgspec.json.encode(part).decode()
            yield self._collector.report(CHECKPOINT, str(self._id), self.number, 0, text)
        self.close()

    def _end_rows(self) -> Iterable[EndRow]:
        if self._at_end is None:
            return ()
        manager = self._state_manager
        opened = {name: (builder, manager.store(name).context) for name, builder in manager.program.stores.items()}
        return self._at_end.rows(self._id, {name: (it, context.committed) for name, (it, context) in opened.items()})

    def close(self) -> None:
        """Close the stores and remove them from the disk. Idempotent."""
        try:
            if not self._closed:
                self._closed = True
                self._task.close()
        finally:
            self._disk.close()

    def _begin(self) -> None:
        if not self._begun:
            for store in self._topics:
                self._changelog(store)
            self._task.resume(self._committed)
            self._task.init(self._wall_ms)
            self._begun = True

    def _work(self) -> Iterator[pa.RecordBatch]:
        attempt = 0
        while True:
            if self._task.process(_RECORDS_PER_STEP, self._wall_ms) or self._task.finish_calls():
                attempt = 0
            elif waits := self._task.waits_for_serdes:
                attempt += 1
                _, error = next(iter(waits.values()))
                _PATIENCE.wait(error, attempt)
                self._task.ask_serdes()
            else:
                return
            yield from self._drain_if_full()

    def commit(self) -> Iterator[pa.RecordBatch]:
        """Commit, so that caches release what they hold back."""
        self._begin()
        for _ in self._task.prepare_commit():
            yield from self._drain_if_full()
        yield from self._drain()
        self._task.complete_commit({})
        for changelog in self._changelogs.values():
            changelog.committed()

    def _drain_if_full(self) -> Iterator[pa.RecordBatch]:
        if self._collector.is_full():
            yield from self._collector.drain()

    def _drain(self) -> Iterator[pa.RecordBatch]:
        yield from self._collector.drain()
