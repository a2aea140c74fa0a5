"""Measures checkpoints in a local folder: ``python -m benchmarks.pipeline.checkpoints``.

1. The pause of a stream, many times, with commits between: the checkpoint itself, after a flush in another thread.
2. The bytes that the second checkpoint uploads after a part of the keys has changed, against the bytes of RocksDB's new
   tables.
3. The start of an application whose disk is lost: from its changelogs alone, and from the checkpoints and the tail of
   its changelogs.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.data import INPUT, PARTITIONS, START_MS, Dataset, Row
from benchmarks.generate import fill
from benchmarks.measure import BenchmarkError, Side, run_side
from benchmarks.pipeline.figures import Figure
from benchmarks.recovery import Sample, application_id_of
from benchmarks.recovery_side import RESTORE, SAMPLED, side_of_penstock
from benchmarks.rig import broker
from benchmarks.workloads import COUNT_STORE, count
from penstock.checkpoints.fetching import fetch_newest
from penstock.checkpoints.fitness import ExpectedState, ExpectedStore
from penstock.checkpoints.manifest import CheckpointDraft, CheckpointManifest, StoreInCheckpoint
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.objects.storage import ObjectLocation
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores

KEYS = 5_000_000
CHANGED_SHARE, TAIL_SHARE = 0.1, 0.05
_ROW = Struct(">qq").pack
_COUNT = Struct(">q").pack
_COMMIT_ROWS = 50_000
_PAUSE_ROWS = 2_000


@dataclass(frozen=True)
class Pause:
    """Times (ms) of one checkpoint: the longest time for which a flush kept another thread waiting, the flush, and the
    checkpoint, during which the stream waits. ``cpu``: the part of the checkpoint for which it had a CPU; ``queued``:
    that for which it waited for one, because other processes had them all."""

    waited: float
    flush: float
    checkpoint: float
    cpu: float
    queued: float

    @property
    def own(self) -> float:
        """The pause without what other processes did to it: on a CPU, or waiting for the disk."""
        return self.checkpoint - self.queued


def scheduled_ms() -> tuple[float, float]:
    """Returns for how long this thread has had a CPU, and for how long it has waited for one."""
    had, queued, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(had) / 1e6, int(queued) / 1e6


def measured_checkpoint(stores: TaskStores, folder: Path, *, flushed: bool = False) -> tuple[Pause, CheckpointDraft]:
    """Take a checkpoint as an actor does: the flush in another thread, unless that was done before."""
    flush = Thread(target=(lambda: None) if flushed else stores.flush)
    begun = last = time.perf_counter()
    waited = 0.0
    flush.start()
    while flush.is_alive():
        now = time.perf_counter()
        waited, last = max(waited, now - last), now
    (cpu, queued), flush_ended = scheduled_ms(), time.perf_counter()
    found = stores.checkpoint(folder)
    ended, (cpu_now, queued_now) = time.perf_counter(), scheduled_ms()
    draft = CheckpointDraft(
        int(time.time() * 1000),
        {name: StoreInCheckpoint(it.layout, "changelog", None, it.changelog_offset) for name, it in found.items()},
        {},
    )
    times = waited * 1000, (flush_ended - begun) * 1000, (ended - flush_ended) * 1000
    return Pause(*times, cpu_now - cpu, queued_now - queued), draft


def write(stores: TaskStores, users: Iterable[int], number: int) -> None:
    """Write a row of each user, in commits."""
    chosen, offset = iter(users), stores.changelog_offset(COUNT_STORE) or 0
    while some := list(islice(chosen, _COMMIT_ROWS)):
        batch = stores.new_batch()
        for user in some:
            batch.put(COUNT_STORE, b"user-%d" % user, _ROW(START_MS + number, number))
        offset += len(some)
        stores.write(batch, {COUNT_STORE: offset})


def uploads(work: Path, keys: int, rounds: int, console: Console) -> list[Figure]:
    """Take the first checkpoint of ``keys`` rows, and more after a part of them has changed each time."""
    stores = open_task_stores(work / "task", builders())
    repository = CheckpointRepository(ObjectLocation(str(work / "storage")).open(), "bench")
    writer, chosen = repository.writer("0_0", 1), random.Random(1)
    known: set[str] = set()
    shares = []
    for number in range(rounds):
        users = range(keys) if number == 0 else chosen.sample(range(keys), int(keys * CHANGED_SHARE))
        write(stores, users, number)
        folder = work / "checkpoint"
        pause, draft = measured_checkpoint(stores, folder)
        tables = {path.name: path.stat().st_size for path in folder.rglob("*.sst")}
        new = sum(size for name, size in tables.items() if name not in known)
        begun = time.perf_counter()
        saved = writer.save(folder, draft)
        took_s = time.perf_counter() - begun
        shutil.rmtree(folder)
        known = set(tables)
        sent = uploaded(saved)
        shares.append(sent / new)
        console.print(
            f"checkpoint {number + 1}: {len(saved.files)} files, {saved.size / 1e6:.1f} MB; uploaded "
            f"{sent / 1e6:.1f} MB in {took_s:.2f} s, new tables {new / 1e6:.1f} MB, ratio {sent / new:.3f}; flush "
            f"{pause.flush:.0f} ms (another thread waited {pause.waited:.1f} ms at most), checkpoint "
            f"{pause.checkpoint:.1f} ms ({pause.cpu:.1f} ms of CPU)"
        )
    stores.close()
    shape = f"{keys:,} keys, a tenth of them changed"
    return [Figure("checkpoint", f"{shape}: uploaded bytes over new SST bytes", tuple(shares[1:]), ".3f", at_most=1.3)]


def pauses(work: Path, keys: int, count: int) -> list[Figure]:
    """Take ``count`` checkpoints of ``keys`` rows, with commits before each flush and while it runs."""
    stores, chosen = open_task_stores(work / "task", builders()), random.Random(1)
    write(stores, range(keys), 0)
    taken = []
    for number in range(count):
        write(stores, chosen.sample(range(keys), _PAUSE_ROWS), number)
        with ThreadPoolExecutor(1) as thread:
            flush = thread.submit(stores.flush)
            while not flush.done():
                write(stores, chosen.sample(range(keys), _PAUSE_ROWS), number)
            flush.result()
        pause, _ = measured_checkpoint(stores, work / "checkpoint", flushed=True)
        shutil.rmtree(work / "checkpoint")
        taken.append(pause)
    stores.close()
    shape = f"{count} checkpoints of {keys:,} keys"
    return [
        *_percentiles(f"{shape}: pause of the task, ms", [pause.checkpoint for pause in taken]),
        *_percentiles("the same, without waiting for a CPU, ms", [pause.own for pause in taken], at_most=15.0),
        *_percentiles("the same, CPU ms", [pause.cpu for pause in taken]),
    ]


def _percentiles(what: str, found: list[float], at_most: float | None = None) -> list[Figure]:
    found.sort()
    shown = {"median": statistics.median(found), "p95": found[int(0.95 * len(found))], "longest": found[-1]}
    return [Figure("checkpoint", f"{what}, {name}", (value,), ".1f", at_most=at_most) for name, value in shown.items()]


def uploaded(saved: CheckpointManifest) -> int:
    """Returns the bytes of the objects that were uploaded for a checkpoint."""
    return sum({file.object: file.size for file in saved.files.values() if file.uploaded}.values())


def builders() -> list[AnyStoreBuilder]:
    """Returns the stores of the measured application."""
    return list(count("output").store_builders.values())


class Start:
    """A broker, and an application that has nothing but a changelog of one record for each of ``keys`` keys."""

    def __init__(self, work: Path, address: str, keys: int, console: Console) -> None:
        self._address, self._keys, self._console = address, keys, console
        self._clients = ConfluentClients(address, "benchmarks")
        self._admin = self._clients.admin()
        self._state = work / "penstock-state"
        self._work = work
        self._application_id = application_id_of(self._side(keys))
        self._changelog = f"{self._application_id}-{COUNT_STORE}-changelog"
        self._output = f"{self._application_id}-output"
        self._repository = CheckpointRepository(ObjectLocation(str(work / "storage")).open(), self._application_id)
        topics = {INPUT: {}, self._output: {}, self._changelog: {"cleanup.policy": "compact"}}
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1, configs) for name, configs in topics.items()])

    def write(self, keys: Iterable[int], paid: int) -> None:
        """Append a record of each key to the changelog."""
        rows: Iterator[Row] = ((b"user-%d" % key, _COUNT(paid), START_MS + paid) for key in keys)
        producer = self._clients.producer()
        fill(producer, self._changelog, rows, lambda done: None)
        producer.close()

    def restore(self, records: int, expected: dict[int, int]) -> float:
        """Start the application, which lacks ``records`` records. Returns the seconds until all tasks run."""
        side, hook = self._side(records), Sample()
        dataset = Dataset("changelog", records, self._keys, {})
        run = run_side(
            side, RESTORE, dataset, self._application_id, self._output, self._admin, hook=hook, settled=lambda: True
        )
        if wrong := hook.differences(side.name, expected):
            raise BenchmarkError("; ".join(wrong))
        return records / run.rate

    def take_checkpoints(self) -> int:
        """Upload a checkpoint of each task that the application has left on disk, then lose the disk. Returns bytes."""
        size = 0
        for task in self._tasks():
            stores = open_task_stores(self._state / self._application_id / task, builders())
            _, draft = measured_checkpoint(stores, folder := self._work / "checkpoint")
            size += self._repository.writer(task, 1).save(folder, draft).size
            stores.close()
            shutil.rmtree(folder)
        shutil.rmtree(self._state)
        return size

    def fetch(self) -> float:
        """Fetch all checkpoints, two at once as an actor does. Returns the seconds that it took."""
        begun = time.perf_counter()
        expected = {builder.name: ExpectedStore(builder.layout, "changelog") for builder in builders()}

        def fetch(task: str) -> None:
            home = self._state / self._application_id / task
            if fetch_newest(self._repository, task, ExpectedState(expected, {}), home) is None:
                raise BenchmarkError(f"task {task} has no checkpoint")

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(fetch, self._tasks()))
        return time.perf_counter() - begun

    def _tasks(self) -> list[str]:
        return [f"0_{partition}" for partition in range(PARTITIONS)]

    def _side(self, records: int) -> Side:
        return side_of_penstock(records, self._address, self._state)


def start(keys: int, console: Console) -> list[Figure]:
    """Start the application from its changelog, then from checkpoints and the tail of its changelog."""
    tail = int(keys * TAIL_SHARE)
    with broker(console) as (work, address):
        made = Start(work, address, keys, console)
        made.write(range(keys), 1)
        once = dict.fromkeys(range(min(keys, SAMPLED)), 1)
        whole_s = made.restore(keys, once)
        console.print(f"from the changelog: {keys:,} records in {whole_s:.2f} s, {keys / whole_s:,.0f}/s")
        size = made.take_checkpoints()
        made.write(range(tail), 2)
        fetch_s = made.fetch()
        tail_s = made.restore(tail, once | dict.fromkeys(range(min(tail, SAMPLED)), 2))
        console.print(
            f"from checkpoints: {size / 1e6:.1f} MB in {fetch_s:.2f} s, then {tail:,} records of the changelog in "
            f"{tail_s:.2f} s"
        )
    name = f"start of {keys:,} keys, disk lost, {TAIL_SHARE:.0%} of them in the tail: times as fast as from changelogs"
    return [Figure("checkpoint", name, (whole_s / (fetch_s + tail_s),), ".1f", at_least=5.0)]


def measure(keys: int, rounds: int, with_start: bool = True, with_pauses: int = 60) -> list[Figure]:
    """Measure, and print each step."""
    console = Console(soft_wrap=True)
    figures: list[Figure] = []
    if with_pauses:
        with TemporaryDirectory(prefix="penstock-bench-") as work:
            figures += pauses(Path(work), keys, with_pauses)
    with TemporaryDirectory(prefix="penstock-bench-") as work:
        figures += uploads(Path(work), keys, rounds, console)
    return [*figures, *(start(keys, console) if with_start else [])]


def main(
    keys: Annotated[int, typer.Option(min=1000, help="Number of keys.")] = KEYS,
    rounds: Annotated[int, typer.Option(min=2, help="Number of checkpoints that are uploaded.")] = 6,
    with_pauses: Annotated[
        int, typer.Option("--pauses", help="Number of checkpoints of which the pause is measured.")
    ] = 60,
    with_start: Annotated[bool, typer.Option("--start/--no-start", help="Measure the start, too.")] = True,
) -> None:
    """Measure checkpoints."""
    for figure in measure(keys, rounds, with_start, with_pauses):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    typer.run(main)
