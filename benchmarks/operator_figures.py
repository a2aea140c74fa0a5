"""The cost of the figures of operators: a live task with measured runs, and without, in turn.

``python -m benchmarks.operator_figures [json count planted …]``. CPU time of the thread, per record. Rounds with
and without figures alternate, so that other load on the machine meets both.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import penstock as ps
from benchmarks.data import INPUT, KEYS, PARTITIONS, RECORDS_PER_MS, payments_of_users
from benchmarks.profile_task import NullCollector, batches
from benchmarks.workloads import WORKLOADS
from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import MOST_RECORDS, RECORDS, OperatorFigures
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import Measured
from penstock.common.records import RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topology import Topology

PLANTED = "planted"
_SLICE_S, _LARGEST_BATCH = 0.002, 2000
_COMMIT_EACH_S, _STATUS_EACH_S = 1.0, 0.5


class LiveTask:
    """A task that is run as an actor runs it: in slices of 2 ms, with a commit a second and two statuses."""

    def __init__(self, topology: Topology, state: Path, *, measured: bool) -> None:
        config = StreamsConfig.of({"application.id": "figures"})
        self.program = TaskProgram.of(topology.subtopologies, config)
        self._collector = NullCollector([topic for topic in self.program.sources if topic.endswith("-repartition")])
        stores = open_task_stores(state, self.program.stores.values())
        share = config.statestore_cache_max_bytes // PARTITIONS, config.entries_memory_bytes // PARTITIONS
        self._budget = MemoryBudget(*share)
        manager = StateManager(TaskId(0, 0), self.program, stores, self._collector, self._budget)
        runs = MeasuredRuns(time.monotonic, time.thread_time)
        self.figures = OperatorFigures(runs, {topic: each.node for topic, each in self.program.sources.items()})
        meter = self.figures.new_meter() if measured else None
        self.task = Task(manager, self._collector, meter=meter)
        self.task.init(0)
        for topic in self.program.sources:
            self.task.set_caught_up(TopicPartition(topic, 0), True)
        self._size = 100
        self.measured: Measured = {}

    def run(self, coming: Sequence[Sequence[RecordBatch]]) -> float:
        """Process these batches, those in one sequence together. Returns the seconds of CPU time that it took."""
        gc.collect()
        now_s, begun = time.monotonic, time.thread_time()
        committed_s = status_s = now_s()
        self.figures.measured(status_s)
        for together in coming:
            for batch in together:
                decoding_s = now_s()
                self.task.add(batch)
                self.figures.decoded(batch.partition.topic, now_s() - decoding_s)
            while self._slice():
                at_s = now_s()
                if at_s - committed_s >= _COMMIT_EACH_S or self._budget.needs_commit:
                    committed_s = at_s
                    for _ in self.figures.steps(self.task.prepare_commit()):
                        pass
                    self.task.complete_commit(dict.fromkeys(self.program.changelogs, 1))
                if at_s - status_s >= _STATUS_EACH_S:
                    status_s = at_s
                    self.measured = self.figures.measured(at_s)
        return time.thread_time() - begun

    def _slice(self) -> bool:
        begun_s = time.monotonic()
        size = min(self._size, MOST_RECORDS) if self.figures.begin() else self._size
        done = self.task.process(size, 0)
        spent_s = self.figures.end(RECORDS, time.monotonic() - begun_s, done, idle=not done)
        if done * 2 >= self._size:
            wanted = int(done * _SLICE_S / spent_s) if spent_s > 0 else 2 * self._size
            self._size = max(1, min(max(wanted, self._size // 2), 2 * self._size, _LARGEST_BATCH))
        return done > 0


def planted(output: str) -> Topology:
    """Operators that take a known time: 1 µs, 20 µs, and, for one record of ten, 50 µs."""
    string = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    (
        builder.stream(INPUT, ps.Consumed.with_(string, string))
        .map_values(_spinning(1), named=ps.Named.as_("1-us"))
        .map_values(_spinning(20), named=ps.Named.as_("20-us"))
        .filter(lambda value: hash(value) % 10 == 0, named=ps.Named.as_("one-of-ten"))
        .map_values(_spinning(50), named=ps.Named.as_("50-us"))
        .to(output, ps.Produced.with_(string, string))
    )
    return builder.build()


def _spinning(microseconds: int) -> Callable[[str], str]:
    loops = range(int(microseconds * 1000 / _ns_of_a_loop()))

    def spin(value: str) -> str:
        for _ in loops:
            pass
        return value

    return spin


@lru_cache
def _ns_of_a_loop() -> float:
    """Returns the ns of CPU time of an empty loop, at best."""
    taken = []
    for _ in range(50):
        begun = time.thread_time_ns()
        for _ in range(10_000):
            pass
        taken.append((time.thread_time_ns() - begun) / 10_000)
    return min(taken)


def main(
    workloads: Annotated[list[str] | None, typer.Argument(help="Workloads of payments; by default some.")] = None,
    records: Annotated[int, typer.Option(min=1, help="Records in the task's partition.")] = 400_000,
    passes: Annotated[int, typer.Option(min=1, help="Passes over them in a round.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with figures, and as many without.")] = 7,
) -> None:
    """Measure in this process."""
    console = Console()
    payments = payments_of_users(records, KEYS // PARTITIONS, RECORDS_PER_MS // PARTITIONS)
    table = Table("workload", "ns per record: without", "with figures", "cost", "spread without")
    for name in workloads or ["json", "count", "window-sum"]:
        topology = planted if name == PLANTED else WORKLOADS[name].topology
        streams = zip_longest(*[batches(topic, rows(), 500) for topic, rows in payments.streams.items()])
        coming = [[each for each in together if each is not None] for together in streams]
        count = sum(map(len, chain.from_iterable(coming)))
        taken: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for measured in taken:
                with tempfile.TemporaryDirectory(prefix="penstock-figures-") as folder:
                    live = LiveTask(topology("output"), Path(folder), measured=measured)
                    taken[measured].append(live.run(coming * passes) / count / passes * 1e9)
                    live.task.close()
            figures = live.measured
        without, with_them = statistics.median(taken[False]), statistics.median(taken[True])
        spread = max(taken[False]) - min(taken[False])
        cost = statistics.median(b / a - 1 for a, b in zip(taken[False], taken[True], strict=True))
        table.add_row(name, f"{without:,.0f}", f"{with_them:,.0f}", f"{cost:+.2%}", f"{spread / without:.1%}")
        for (_, figure, node), value in sorted(figures.items(), key=lambda each: each[0][1:]):
            console.print(f"{name}: {figure} of {node}: {value:,.3f}")
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
