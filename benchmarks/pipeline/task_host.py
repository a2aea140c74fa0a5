"""The task on Spark's executor, without Spark: ns per record of each workload, beside the same task as it runs live.

``python -m benchmarks.pipeline.task_host [count join …] [--profile]``
"""

from __future__ import annotations

import cProfile
import heapq
import pstats
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import (
    KEYS,
    PAIRED_PER_MS,
    PARTITIONS,
    RECORDS_PER_MS,
    Dataset,
    clicks_and_views,
    payments_of_users,
)
from benchmarks.profile_task import batches, run_task
from benchmarks.workloads import WORKLOADS
from penstock.common.config import StreamsConfig
from penstock.pipeline.rows import INPUT_ARROW, PROCESS
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.task_host import TaskHost
from penstock.topology.physical.topology import Topology, internal_topic

MEASURED = ("json", "count", "join", "window-sum", "session-count", "stream-join", "table-join", "count-large")


def inputs(dataset: Dataset, table: str | None, size: int) -> list[pa.RecordBatch]:
    """Returns the records in the order in which Spark hands them to the task, those of the table first."""
    sides = dict(dataset.streams)
    rows: list[tuple[Any, ...]] = []
    if table:
        rows = [(0, PROCESS, table, 0, offset, *row, None) for offset, row in enumerate(dataset.tables[table]())]
    rows += heapq.merge(*(_timed(topic, side()) for topic, side in sorted(sides.items())), key=itemgetter(7))
    made = []
    for begin in range(0, len(rows), size):
        columns = zip(*rows[begin : begin + size], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, INPUT_ARROW, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=INPUT_ARROW))
    return made


def _timed(topic: str, rows: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    for offset, row in enumerate(rows):
        yield 0, PROCESS, topic, 0, offset, *row, None


def run_host(
    topology: Topology, given: Sequence[pa.RecordBatch], profiler: cProfile.Profile | None
) -> tuple[float, float]:
    """Returns CPU seconds of this thread for the records, and for the hand-over after the last one."""
    config = StreamsConfig.of({"application.id": "profile"})
    (subtopology,) = topology.subtopologies
    changelogs = frozenset(internal_topic("profile", f"{name}-changelog") for name in topology.store_builders)
    host = TaskHost(subtopology, config, TopicCounts({"output": 1}, frozenset(), changelogs), {})
    ended = 0.0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal ended
        yield from given
        ended = time.thread_time()

    with profiler or nullcontext():
        begun = time.thread_time()
        for _ in host.run(watched()):
            pass
        end = time.thread_time()
    return ended - begun, end - ended


def main(
    workloads: Annotated[list[str] | None, typer.Argument(help="Workloads of workloads.py.")] = None,
    records: Annotated[int, typer.Option(min=1, help="Records in the task's partition.")] = 400_000,
    keys: Annotated[int, typer.Option(min=1, help="Keys in the task's partition.")] = KEYS // PARTITIONS,
    batch: Annotated[int, typer.Option(min=1, help="Records in a batch of Arrow.")] = 10_000,
    repeat: Annotated[int, typer.Option(min=1, help="Passes, of which the fastest counts.")] = 3,
    profile: Annotated[bool, typer.Option("--profile", help="Show the functions that take the time, too.")] = False,
) -> None:
    """Measure the task in this process."""
    payments = payments_of_users(records, keys, RECORDS_PER_MS // PARTITIONS)
    pairs = clicks_and_views(records // 2, keys, PAIRED_PER_MS // PARTITIONS)
    datasets = {each.name: each for each in (payments, pairs)} | dict.fromkeys(
        ("fewer payments", "many keys"), payments
    )
    shown = Table("workload", "live: ns per record", "Spark's executor", "of it the hand-over", "speed, live = 1")
    for name in workloads or MEASURED:
        workload = WORKLOADS[name]
        dataset, topology = datasets[workload.dataset], workload.topology("output")
        if len(topology.subtopologies) > 1:
            raise typer.BadParameter(f"{name} has several sub-topologies")
        given = inputs(dataset, workload.table, batch)
        rows = sum(map(len, given))
        live, hosted = [], []
        for number in range(repeat):
            live.append(_live(dataset, topology, workload.table) * dataset.records / rows)
            profiler = cProfile.Profile() if profile and number == repeat - 1 else None
            hosted.append(run_host(topology, given, profiler))
            if profiler is not None:
                pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        best = min(hosted[:-1] if profile and repeat > 1 else hosted, key=sum)
        total, last = sum(best) / rows * 1e9, best[1] / rows * 1e9
        shown.add_row(name, f"{min(live):,.0f}", f"{total:,.0f}", f"{last:,.0f}", f"{min(live) / total:.2f}")
    Console().print(shown)


def _live(dataset: Dataset, topology: Topology, table: str | None) -> float:
    table_rows = batches(table, dataset.tables[table](), 500) if table else []
    sides = [batches(topic, rows(), 500) for topic, rows in dataset.streams.items()]
    streams = [[each for each in together if each is not None] for together in zip_longest(*sides)]
    work = Path(tempfile.mkdtemp(prefix="penstock-profile-"))
    try:
        measured = run_task(topology, table_rows, streams, work)
    finally:
        shutil.rmtree(work)
    return measured.process + measured.commit


if __name__ == "__main__":
    typer.run(main)
