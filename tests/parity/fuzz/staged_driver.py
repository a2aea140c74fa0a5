"""The expected results of a backfill: live tasks take records one by one, in the order that docs/BACKFILL.md names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from typing_extensions import override

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.records import NO_HEADERS
from penstock.pipeline.backfill.order import StageSubtopologies, in_order
from penstock.testing.fake_broker import FakeRecord
from penstock.topology.physical.topology import Topology, internal_topic
from tests.live.bunches import PARTITIONS
from tests.live.partitioned_driver import PartitionedDriver, Written


class Read(NamedTuple):
    """A record of a topic, with its partition."""

    partition: TopicPartition
    record: FakeRecord


class StagedDriver(PartitionedDriver):
    """Runs tasks stage by stage. What they write to topics that are not repartition topics is kept in ``written``; no
    task reads it until :meth:`take_all` is given the records of the topics."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], application: str) -> None:
        super().__init__(topology, config, PARTITIONS)
        self._application = application
        self._stages = in_order(topology)
        self._shuffles = {internal_topic(application, name) for name in topology.repartition_topics}
        self.read = {topic for topic, _ in self._tasks} - self._shuffles
        self.global_topics = set(self._globals.topics)
        self.written: dict[str, list[list[Written]]] = defaultdict(lambda: [[] for _ in range(PARTITIONS)])
        self._inner: set[str] = set()
        self._waiting: list[tuple[TopicPartition, Written]] = []

    @override
    def append(self, topic: str, partition: int, record: Written) -> None:
        if partition < 0:
            partition = _default_partition(record, topic in self._shuffles)
        if topic in self._inner:
            super().append(topic, partition, record)
        elif topic in self._shuffles:
            self._waiting.append((TopicPartition(topic, partition), record))
        else:
            self.written[topic][partition].append(record)
            if topic not in self.read:
                self.topics[topic][partition].append(record)

    def take_all(self, records: Iterable[Read]) -> None:
        """Process ``records``, and all that they lead to; each partition's records in their order."""
        mine = defaultdict(list)
        for read in records:
            if read.partition.topic in self.global_topics:
                of, (key, value, timestamp, headers) = read.partition, _columns(read.record)
                self._globals.pipe(of.topic, key, value, timestamp, headers or NO_HEADERS, 0)
            else:
                mine[read.partition.topic].append(read)
        for stage in self._stages:
            self._take_stage(stage, mine)

    def _take_stage(self, stage: StageSubtopologies, records: Mapping[str, list[Read]]) -> None:
        own = {topic for sub in stage.subtopologies for source in sub.sources for topic in source.topics}
        shuffled = {internal_topic(self._application, topic) for topic in own} & self._shuffles
        self._inner = {internal_topic(self._application, topic) for topic in stage.inner}
        todo: list[tuple[TopicPartition, TaskId | None, Written]] = [
            (partition, None, Written(*_columns(record)[:3], record.headers or NO_HEADERS))
            for topic in own
            for partition, record in records.get(topic, ())
        ]
        todo += [(partition, each.task, each) for partition, each in self._waiting if partition.topic in shuffled]
        self._waiting = [(partition, each) for partition, each in self._waiting if partition.topic not in shuffled]
        latest: dict[tuple[TopicPartition, TaskId | None], int] = {}
        timed = []
        for place, (partition, writer, record) in enumerate(todo):
            time = latest[partition, writer] = max(latest.get((partition, writer), -1), record.timestamp)
            timed.append(((time, *partition, writer or TaskId(0, 0), place), partition, record))
        for _, (topic, number), record in sorted(timed, key=lambda entry: entry[0]):
            log = self.topics[topic][number]
            log.append(record)
            self._tasks[topic, number].work(topic, number, log)
            self.work()


def _columns(record: FakeRecord) -> tuple[bytes | None, bytes | None, int, Any]:
    return record.key, record.value, record.timestamp, record.headers


def _default_partition(record: Written, shuffled: bool) -> int:
    if record.key is not None:
        return partition_for(record.key, PARTITIONS)
    # Like a backfill, which must choose the same partition in every attempt.
    return record.task.partition if shuffled and record.task is not None else 0
