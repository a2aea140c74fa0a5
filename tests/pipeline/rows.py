"""The rows that Spark gives an executor and gets back, made and read without it; the driver's results for them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.rows import INPUT_ARROW, OUTPUT_ARROW, PROCESS, RESTORE
from penstock.pipeline.task_hosts.collector import SparkCollector, TopicCounts
from penstock.pipeline.task_hosts.task_host import TaskHost
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topology import Topology

CONFIG = StreamsConfig.of({"application.id": "app"})
Row = tuple[Any, ...]


def host(topology: Topology, **partitions: int) -> TaskHost:
    changelogs = frozenset(f"app-{name}-changelog" for name in topology.store_builders)
    counts = TopicCounts(partitions, frozenset(), changelogs)
    return TaskHost(topology.subtopologies[0], CONFIG, counts, {})


def process(task: int, topic: str, offset: int, key: str, value: str | None, timestamp: int) -> Row:
    return (task, PROCESS, topic, 0, offset, key.encode(), value and value.encode(), timestamp, None)


def restore(
    task: int, store: str, offset: int, key: str, row: bytes | None, timestamp: int, unfinished: int = 0
) -> Row:
    return (task, RESTORE, store, unfinished, offset, key.encode(), row, timestamp, None)


def batches(rows: list[Row], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, INPUT_ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=INPUT_ARROW)


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
    collector = SparkCollector(TaskId(0, task), host(topology).topics)
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
