"""The task on Spark's executor, without Spark: ns per record of each workload, beside the same task as it runs live.

``python -m benchmarks.pipeline.task_host [count join …] [--profile]``
"""

from __future__ import annotations

import cProfile
import pstats
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice, zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import (
    KEYS,
    PAIRED_PER_MS,
    PARTITIONS,
    RECORDS_PER_MS,
    Dataset,
    Row,
    clicks_and_views,
    payments_of_users,
)
from benchmarks.profile_task import batches, run_task
from benchmarks.workloads import WORKLOADS
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.reading.merge import TimedBatches, merged
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.task_hosts.contracts import RestoredRows, StageInput, TaskInput
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from penstock.topology.physical.topology import Topology, internal_topic

MEASURED = ("json", "count", "join", "window-sum", "session-count", "stream-join", "table-join", "count-large")


def inputs(dataset: Dataset, table: str | None, size: int) -> list[Chunk]:
    """Returns the records in the order in which the task takes them, those of the table first."""
    topics = {topic: rows() for topic, rows in dataset.streams.items()}
    before = [TimedBatches(_batches(table, dataset.tables[table](), size))] if table else []
    sides = [TimedBatches(_batches(topic, rows, size)) for topic, rows in sorted(topics.items())]
    return [*merged(before, size), *merged(sides, size)]


def _batches(topic: str, rows: Iterator[Row], size: int) -> Iterator[RecordBatch]:
    begin = 0
    while own := list(islice(rows, size)):
        keys, values, timestamps = map(list, zip(*own, strict=True))
        yield RecordBatch(TopicPartition(topic, 0), keys, values, timestamps, range(begin, begin + len(own)))
        begin += len(own)


class _Given(StageInput, TaskInput):
    """The chunks, for the only task; notes the CPU time when they end."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self.ended = 0.0

    def open(self, tasks: Sequence[int]) -> TaskInput:
        return self

    def restored(self) -> Iterator[RestoredRows]:
        return iter(())

    def chunks(self) -> Iterator[Chunk]:
        yield from self._chunks
        self.ended = time.thread_time()

    def close(self) -> None:
        pass


def run_host(topology: Topology, given: Sequence[Chunk], profiler: cProfile.Profile | None) -> tuple[float, float]:
    """Returns CPU seconds of this thread for the records, and for the hand-over after the last one."""
    config = StreamsConfig.of({"application.id": "profile"})
    (subtopology,) = topology.subtopologies
    changelogs = frozenset(internal_topic("profile", f"{name}-changelog") for name in topology.store_builders)
    host = TaskHost(subtopology, HostSettings(config, TopicCounts({"output": 1}, frozenset(), changelogs), {}))
    records = _Given(given)
    with profiler or nullcontext():
        begun = time.thread_time()
        for _ in host.run([0], records):
            pass
        end = time.thread_time()
    return records.ended - begun, end - records.ended


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
        rows = sum(len(chunk.order) for chunk in given)
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
