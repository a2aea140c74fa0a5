"""The task alone, without Kafka and Ray: ns per record of each workload, and where they go. For tuning the hot path.

``python -m benchmarks.profile_task [json count …] [--profile]``
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import (
    DENSE_PER_MS,
    KEYS,
    ORDERED_USERS,
    PAIRED_PER_MS,
    PARTITIONS,
    RECORDS_PER_MS,
    START_MS,
    Row,
    clicks_and_views,
    dense_payments,
    hot_payments,
    late_payments,
    orders_of_users,
    payments_of_users,
    wide_payments,
)
from benchmarks.workloads import WORKLOADS
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topology import Topology


class NullCollector:
    """Takes what the task writes and counts it. What goes to topics that the task reads itself, ``read_back``, is kept
    in ``rows``."""

    def __init__(self, read_back: Collection[str] = ()) -> None:
        self.sent = 0
        self.rows: dict[str, list[Row]] = {topic: [] for topic in read_back}
        self._offsets = dict.fromkeys(read_back, 0)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Counts one record."""
        self.sent += 1
        if topic in self.rows:
            assert key is not None
            assert value is not None
            self.rows[topic].append((key, value, timestamp))

    def take(self, size: int) -> list[RecordBatch]:
        """Returns the rows that were kept, as batches of ``size``, and keeps them no longer."""
        made: list[RecordBatch] = []
        for topic, rows in self.rows.items():
            if rows:
                made += batches(topic, rows, size, self._offsets[topic])
                self._offsets[topic] += len(rows)
                self.rows[topic] = []
        return made

    def partitions(self, topic: str) -> int:
        """Returns 1: one partition is enough."""
        return 1


@dataclass(frozen=True)
class Profile:
    """The cost of one pass, in ns per input record; ``commit`` is one commit at the end.

    CPU time of the thread, so that other load on the machine matters little. ``early`` counts the commits before it,
    because updates had filled the memory: their time is among that of ``process``.
    """

    process: float
    commit: float
    written: int
    early: int


def batches(topic: str, rows: Iterable[Row], size: int, offset: int = 0) -> list[RecordBatch]:
    """Returns ``rows`` as batches of ``size``, as a consumer makes of partition 0 of ``topic``, from ``offset`` on."""
    made: list[RecordBatch] = []
    left = iter(rows)
    while chunk := list(islice(left, size)):
        keys, values, timestamps = (list(column) for column in zip(*chunk, strict=True))
        offsets = list(range(offset, offset + len(chunk)))
        made.append(RecordBatch(TopicPartition(topic, 0), keys, values, timestamps, offsets))
        offset += len(chunk)
    return made


def run_task(
    topology: Topology, table: Sequence[RecordBatch], streams: Sequence[Sequence[RecordBatch]], state: Path | None,
    profiler: cProfile.Profile | None = None,
) -> Profile:  # fmt: skip
    """Run one pass over the streams, after the table was read and committed, on stores below ``state`` (None: memory).

    Batches of several ``streams`` wait together, as they do live: records of one time come in turn. Sub-topologies run
    as one, and what they write to topics of their own comes back after each batch. The task has the share of an actor's
    memory that one of several partitions has, and commits when that is full.
    """
    config = StreamsConfig.of({"application.id": "profile"})
    program = TaskProgram.of(topology.subtopologies, config)
    given = {batch.partition.topic for batch in chain(table, *streams)}
    collector = NullCollector([topic for topic in program.sources if topic not in given])
    stores = open_task_stores(state, program.stores.values())
    budget = MemoryBudget(config.statestore_cache_max_bytes // PARTITIONS, config.entries_memory_bytes // PARTITIONS)
    task = Task(StateManager(TaskId(0, 0), program, stores, collector, budget), collector)
    task.init(START_MS)
    topics = [TopicPartition(topic, 0) for topic in program.sources]
    for at in topics:
        task.set_caught_up(at, True)
    if table:
        _process(task, [[batch] for batch in table], collector, budget)
        _commit(task)
    records = sum(map(len, chain.from_iterable(streams)))
    collector.sent = 0
    gc.collect()
    with profiler or nullcontext():
        begin = time.thread_time_ns()
        early = _process(task, streams, collector, budget)
        processed = time.thread_time_ns()
        _commit(task)
        end = time.thread_time_ns()
    task.close()
    return Profile((processed - begin) / records, (end - processed) / records, collector.sent, early)


def _process(task: Task, rows: Sequence[Sequence[RecordBatch]], collector: NullCollector, budget: MemoryBudget) -> int:
    """Process ``rows`` and commit whenever the memory is full; returns the number of these commits."""
    commits = 0
    for together in rows:
        size, coming = len(together[0]), list(together)
        while coming:
            for batch in coming:
                task.add(batch)
            while task.process(size, START_MS):
                if budget.needs_commit:
                    _commit(task)
                    commits += 1
            coming = collector.take(size)
    return commits


def _commit(task: Task) -> None:
    for _ in task.prepare_commit():
        pass
    task.complete_commit(dict.fromkeys(task.state_manager.program.changelogs, 1))


def main(
    workloads: Annotated[list[str] | None, typer.Argument(help="Workloads of workloads.py; by default all.")] = None,
    records: Annotated[int, typer.Option(min=1, help="Records in the task's partition.")] = 400_000,
    keys: Annotated[int, typer.Option(min=1, help="Keys in the task's partition.")] = KEYS // PARTITIONS,
    batch: Annotated[int, typer.Option(min=1, help="Records in a batch.")] = 500,
    repeat: Annotated[int, typer.Option(min=1, help="Passes, of which the fastest counts.")] = 3,
    memory: Annotated[bool, typer.Option("--memory", help="State in memory, not in RocksDB.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show the functions that take the time, too.")] = False,
) -> None:
    """Measure the task in this process."""
    console = Console()
    made = (
        payments_of_users(records, keys, RECORDS_PER_MS // PARTITIONS),
        clicks_and_views(records // 2, keys, PAIRED_PER_MS // PARTITIONS),
        orders_of_users(records // 2, keys, ORDERED_USERS // PARTITIONS),
        dense_payments(records, keys, DENSE_PER_MS // PARTITIONS),
        late_payments(records, keys, DENSE_PER_MS // PARTITIONS),
        hot_payments(records, keys, RECORDS_PER_MS // PARTITIONS),
        wide_payments(records // 4, keys),
    )
    datasets = {each.name: each for each in made}
    datasets |= dict.fromkeys(("fewer payments", "many keys"), datasets["payments"])
    table = Table("workload", "ns per record: process", "last commit", "early commits", "records written per record")
    for name in workloads or WORKLOADS:
        workload = WORKLOADS[name]
        dataset, topology = datasets[workload.dataset], workload.topology("output")
        table_rows = batches(workload.table, dataset.tables[workload.table](), batch) if workload.table else []
        sides = [batches(topic, rows(), batch) for topic, rows in dataset.streams.items()]
        streams = [[each for each in together if each is not None] for together in zip_longest(*sides)]
        profiler = cProfile.Profile() if profile else None
        passes = []
        for number in range(repeat):
            work = Path(tempfile.mkdtemp(prefix="penstock-profile-"))
            try:
                last = profiler if number == repeat - 1 else None
                passes.append(run_task(topology, table_rows, streams, None if memory else work, last))
            finally:
                shutil.rmtree(work)
        timed = passes[:-1] if profile and len(passes) > 1 else passes
        best = min(timed, key=lambda each: each.process)
        row = f"{best.process:,.0f}", f"{best.commit:,.0f}", str(best.early), f"{best.written / dataset.records:.2f}"
        table.add_row(name, *row)
        if profiler is not None:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(15)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
