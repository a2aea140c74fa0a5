"""The rows that tasks get on Spark and yield there, made and read without it; the driver's results for them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_ranges import Ranges
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.kafka.range_reader import KafkaReader
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.merge import TimedBatches, TimesOf, merged, merged_writers
from penstock.pipeline.rows import OUTPUT_ARROW
from penstock.pipeline.task_hosts.collector import SparkCollector, TopicCounts
from penstock.pipeline.task_hosts.contracts import RestoredRows, StageInput, TaskInput
from penstock.pipeline.task_hosts.cycle_host import CycleHost
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topology import Topology

CONFIG = StreamsConfig.of({"application.id": "app"})
Row = tuple[Any, ...]
"""Task, phase, topic (or store), writer (or 1 for rows of an unfinished backfill), offset, key, value, timestamp and
headers."""
RESTORE, PROCESS = 0, 1


def host(topology: Topology, **partitions: int) -> TaskHost:
    changelogs = frozenset(f"app-{name}-changelog" for name in topology.store_builders)
    counts = TopicCounts(partitions, frozenset(), changelogs)
    return TaskHost(topology.subtopologies[0], HostSettings(CONFIG, counts, {}))


def process(task: int, topic: str, offset: int, key: str, value: str | None, timestamp: int) -> Row:
    encoded = None if value is None else value.encode()
    return (task, PROCESS, topic, 0, offset, key.encode(), encoded, timestamp, None)


def restore(
    task: int, store: str, offset: int, key: str, row: bytes | None, timestamp: int, unfinished: int = 0
) -> Row:
    return (task, RESTORE, store, unfinished, offset, key.encode(), row, timestamp, None)


class RowsInput(StageInput):
    """Gives tasks rows that tests write down, in chunks of ``size`` records; calls ``taken`` when one is processed."""

    def __init__(
        self,
        rows: Iterable[Row],
        size: int,
        taken: Callable[[], object] = lambda: None,
        times_of: Callable[[str, int], TimesOf] = lambda topic, task: attrgetter("timestamps"),
    ) -> None:
        self._rows = sorted(rows, key=lambda row: row[:5])
        self._size = size
        self._taken = taken
        self._times_of = times_of

    def open(self, tasks: Sequence[int]) -> RowsOfTasks:
        return RowsOfTasks(*self.of(tasks))

    def of(self, tasks: Sequence[int]) -> tuple[list[Row], int, Callable[[], object], Callable[[str, int], TimesOf]]:
        """Returns the arguments of RowsOfTasks."""
        return [row for row in self._rows if row[0] in tasks], self._size, self._taken, self._times_of


class RowsOfTasks(TaskInput):
    def __init__(
        self, rows: list[Row], size: int, taken: Callable[[], object], times_of: Callable[[str, int], TimesOf]
    ) -> None:
        self._rows = rows
        self.size = size
        self.taken = taken
        self._times_of = times_of

    def restored(self) -> Iterator[RestoredRows]:
        rows = (row for row in self._rows if row[1] == RESTORE)
        for (task, _, store, source), own in groupby(rows, lambda row: row[:4]):
            for batch in self.batches(list(own)):
                yield RestoredRows(task, store, batch, bool(source))

    def chunks(self) -> Iterator[Chunk]:
        for chunk in merged([partition for _, partition in self.partitions()], self.size):
            yield chunk
            self.taken()

    def partitions(self) -> list[tuple[TopicPartition, TimedBatches]]:
        """Returns the records of each partition."""
        rows = (row for row in self._rows if row[1] == PROCESS)
        writers: dict[tuple[str, int], list[Iterator[RecordBatch]]] = defaultdict(list)
        for (task, _, topic, _), own in groupby(rows, lambda row: row[:4]):
            writers[topic, task].append(self.batches(list(own)))
        return [
            (TopicPartition(*at), TimedBatches(merged_writers(writers[at]), self._times_of(*at)))
            for at in sorted(writers)
        ]

    def close(self) -> None:
        pass

    def batches(self, rows: list[Row]) -> Iterator[RecordBatch]:
        """Yields ``rows`` of one partition as batches."""
        for start in range(0, len(rows), self.size):
            tasks, _, topics, _, offsets, keys, values, timestamps, structs = zip(
                *rows[start : start + self.size], strict=True
            )
            headers = [each and [(header["key"], header["value"]) for header in each] for each in structs]
            partition, own = TopicPartition(topics[0], tasks[0]), headers if any(headers) else None
            yield RecordBatch(partition, list(keys), list(values), list(timestamps), list(offsets), own)


def run(
    host: TaskHost | CycleHost, rows: Iterable[Row], size: int, taken: Callable[[], object] = lambda: None
) -> Iterator[pa.RecordBatch]:
    """Yields what the tasks of ``rows`` yield."""
    given = list(rows)
    return host.run(sorted({row[0] for row in given}), RowsInput(given, size, taken))


def output(results: Iterable[pa.RecordBatch]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in results:
        assert batch.schema == OUTPUT_ARROW
        for row in batch.to_pylist():
            rows[row["kind"]].append(row)
    return rows


def out_of_order(rng: random.Random, topic: str, task: int, count: int, parity: int) -> list[Row]:
    """Records whose times wander back and forth; those of two topics never coincide."""
    time, rows = 0, []
    for offset in range(count):
        time += rng.randrange(6)
        timestamp = max(0, time - rng.choice([0, 0, 0, 5, 20])) * 2 + parity
        rows.append(process(task, topic, offset, f"k{rng.randrange(4)}", f"{topic}{task}-{offset}", timestamp))
    return rows


def on_the_driver(topology: Topology, rows: list[Row], task: int) -> list[tuple[bytes, bytes, int]]:
    """Returns the results of the task itself for the same records, all of them there from the start."""
    collector = SparkCollector(TaskId(0, task), host(topology).settings.topics)
    program = TaskProgram.of(topology.subtopologies[:1], CONFIG)
    stores = open_task_stores(None, program.stores.values())
    driver = Task(StateManager(TaskId(0, task), program, stores, collector), collector)
    for topic in sorted({row[2] for row in rows}):
        own = [row for row in rows if row[2] == topic]
        _, _, _, _, offsets, keys, values, timestamps, _ = map(list, zip(*own, strict=True))
        driver.add(RecordBatch(TopicPartition(topic, task), keys, values, timestamps, offsets))
    config_waits_for_nothing = 1 << 40
    for topic in program.sources:
        driver.set_caught_up(TopicPartition(topic, task), True)
    driver.init(0)
    while driver.process(100, config_waits_for_nothing):
        pass
    for _ in driver.prepare_commit():
        pass
    return [(row["key"], row["value"], row["timestamp"]) for batch in collector.drain() for row in batch.to_pylist()]


def records_in(clients: KafkaClients, ranges: Ranges) -> Iterator[RecordBatch]:
    """Yields the records of ``ranges``, one partition after the other."""
    with closing(KafkaReader(clients.restore_consumer(), ranges)) as reader:
        for at in sorted(ranges):
            yield from reader.batches(at)
