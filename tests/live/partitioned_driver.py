"""The expected results of a live application: its tasks, one per partition, record by record, without Ray and Kafka."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import NO_HEADERS, Headers, RecordBatch
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.contracts import RecordCollector
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.testing.global_stores import DrivenGlobalStores
from penstock.topology.physical.topology import Topology


@dataclass(frozen=True)
class Written:
    """A record in a partition of a topic; ``task``: the task that wrote it, if known."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    task: TaskId | None = field(default=None, compare=False)


class PartitionedDriver:
    """The tasks of all sub-topologies on ``partitions`` partitions. Each record is processed, with all that it leads
    to, before the next one, and each task commits after each record, as in ``TopologyTestDriver``."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], partitions: int, wall_ms: int = 0) -> None:
        checked = StreamsConfig.of(config)
        self.partitions = partitions
        self.wall_ms = wall_ms
        self.topics: dict[str, list[list[Written]]] = defaultdict(lambda: [[] for _ in range(partitions)])
        self._globals = DrivenGlobalStores(topology, checked, [])
        self._globals.init(wall_ms)
        self._unseen: deque[tuple[str, int]] = deque()
        self._tasks: dict[tuple[str, int], HostedTask] = {}
        for sub in topology.subtopologies:
            program = TaskProgram.of([sub], checked)
            for number in range(partitions):
                hosted = HostedTask(TaskId(sub.id, number), program, self)
                self._tasks.update(dict.fromkeys(((topic, number) for topic in program.sources), hosted))

    @property
    def hosted(self) -> list[HostedTask]:
        """All tasks, by their numbers."""
        return sorted(set(self._tasks.values()), key=lambda it: it.id)

    @property
    def global_stores(self) -> Mapping[str, Any]:
        """The global stores, which all tasks share."""
        return self._globals.stores

    def pipe(self, topic: str, partition: int, record: Written) -> None:
        """Process one record and all that it leads to."""
        if topic in self._globals.topics:
            self._globals.pipe(topic, record.key, record.value, record.timestamp, record.headers, 0)
            return
        self.append(topic, partition, record)
        self.work()

    def fill_global_stores(self) -> None:
        """Gives the global stores what their topics have."""
        for topic in self._globals.topics:
            for it in (record for partition in self.topics[topic] for record in partition):
                self._globals.pipe(topic, it.key, it.value, it.timestamp, it.headers, 0)

    def work(self) -> None:
        """Process what tasks have not read yet."""
        while self._unseen:
            self._work_once()

    def _work_once(self) -> None:
        to = self._unseen.popleft()
        if (hosted := self._tasks.get(to)) is not None:
            hosted.work(*to, self.topics[to[0]][to[1]])

    def pass_time(self, ms: int) -> None:
        """Advances the wall clock, and with it the time of what is idle, in upstream tasks first."""
        self.wall_ms += ms
        for hosted in self.hosted:
            hosted.pass_time()
            self.work()

    def restart(self) -> None:
        """Throw every task away and restore it from its changelogs, into memory."""
        for hosted in self.hosted:
            hosted.restart()

    def append(self, topic: str, partition: int, record: Written) -> None:
        """Appends a record of any writer; without a key and a partition it goes to the first partition."""
        if partition < 0:
            partition = 0 if record.key is None else partition_for(record.key, self.partitions)
        self.topics[topic][partition].append(record)
        self._unseen.append((topic, partition))


class _Collector(RecordCollector):
    """Appends the output of a task to the driver's topics."""

    def __init__(self, task: TaskId, driver: PartitionedDriver) -> None:
        self._task = task
        self._driver = driver

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
        self._driver.append(topic, partition, Written(key, value, timestamp, headers or NO_HEADERS, self._task))

    @override
    def partitions(self, topic: str) -> int:
        return self._driver.partitions


class HostedTask:
    """One task, with the number of records that it has read."""

    def __init__(self, id: TaskId, program: TaskProgram, driver: PartitionedDriver) -> None:
        self.id = id
        self.program = program
        self._driver = driver
        self._collector = _Collector(id, driver)
        self._read = dict.fromkeys(program.sources, 0)
        self._begin({})

    def _begin(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        rows = open_task_stores(None, self.program.stores.values())
        self._begin_with(rows, offsets)

    def _begin_with(self, rows: TaskStores, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.state_manager = StateManager(self.id, self.program, rows, self._collector)
        self.state_manager.continue_from(offsets)
        for name, log in self.program.changelogs.items():
            written = self._driver.topics[log.topic][self.id.partition]
            if log.is_source_topic:
                written = written[: self._read[log.topic]]
            written = written[rows.changelog_offset(name) or 0 :]
            keys, values = [record.key for record in written], [record.value for record in written]
            times, headers = [record.timestamp for record in written], [record.headers or None for record in written]
            self.state_manager.restore(name, keys, values, times, len(written), headers)
        stores = self._driver.global_stores
        self._task = Task(self.state_manager, self._collector, stores, clock_is_frozen=True)
        for topic in self._read:
            self._task.set_caught_up(TopicPartition(topic, self.id.partition), True)
        self._task.resume(offsets)
        self._task.init(self._driver.wall_ms)

    def take_over(self, folder: Path | None, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Replaces the task by one that continues from what is committed, with the stores in ``folder``, if there are
        any, and what the changelogs have beside these."""
        self._task.close()
        own = {
            at: found for at, found in offsets.items() if at.topic in self._read and at.partition == self.id.partition
        }
        self._read.update((at.topic, found.offset) for at, found in own.items())
        self._begin_with(open_task_stores(folder, self.program.stores.values()), own)

    def close(self) -> None:
        """Closes its stores."""
        self._task.close()

    def restart(self) -> None:
        """Replaces the task by a new one, with what Kafka has of it."""
        offsets = self._task.offsets()
        self._task.close()
        self._begin(offsets)

    @property
    def topics(self) -> Iterable[str]:
        """The topics that the task reads."""
        return self._read.keys()

    def read(self, topic: str) -> int:
        """Returns the number of records of its partition of ``topic`` that the task has taken."""
        return self._read[topic]

    def offsets(self) -> Mapping[TopicPartition, CommittedOffset]:
        """Returns the offsets that a commit notes."""
        return self._task.offsets()

    def work(self, topic: str, partition: int, log: list[Written]) -> None:
        """Process the records of ``log`` that were not read yet."""
        begin = self._read[topic]
        self._read[topic] = len(log)
        for offset, record in enumerate(log[begin:], begin):
            columns: list[Headers | None] | None = [record.headers] if record.headers else None
            self._task.add(
                RecordBatch(
                    TopicPartition(topic, partition),
                    [record.key],
                    [record.value],
                    [record.timestamp],
                    [offset],
                    columns,
                )
            )
        while self._task.process(1, self._driver.wall_ms):
            self._commit()

    def _commit(self) -> None:
        deque(self._task.prepare_commit(), maxlen=0)
        self._task.complete_commit({})

    def pass_time(self) -> None:
        """Punctuates by the driver's clock, and commits."""
        self._task.punctuate(self._driver.wall_ms)
        while self._task.commit_requested:
            self._commit()
            self._task.punctuate(self._driver.wall_ms)
        self._commit()

    def entries(self, store: str) -> Iterator[tuple[Any, Any]]:
        """Yields the keys and values of the store, without timestamps."""
        for key, value in self.state_manager.store(store).view().all():
            yield key, value.value if hasattr(value, "timestamp") else value
