"""Measures checkpoints in a local folder: ``python -m benchmarks.pipeline.checkpoints``.

1. The pause of a stream: the flush beside another thread, and the checkpoint itself.
2. The bytes that the second checkpoint uploads after a part of the keys has changed, against the bytes of RocksDB's new
   tables.
3. The start of an application whose disk is lost: from its changelogs alone, and from the checkpoints and the tail of
   its changelogs.
"""

from __future__ import annotations

import random
import shutil
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


@dataclass(frozen=True)
class Pause:
    """Times (ms) of one checkpoint: the longest time for which a flush kept another thread waiting, the flush, and the
    checkpoint, during which nothing else runs; ``cpu`` is the part of that for which it had a CPU."""

    waited: float
    flush: float
    checkpoint: float
    cpu: float


def measured_checkpoint(stores: TaskStores, folder: Path) -> tuple[Pause, CheckpointDraft]:
    """Take a checkpoint as an actor does: the flush in another thread."""
    flush = Thread(target=stores.flush)
    begun = last = time.perf_counter()
    waited = 0.0
    flush.start()
    while flush.is_alive():
        now = time.perf_counter()
        waited, last = max(waited, now - last), now
    flushed, cpu = time.perf_counter(), time.thread_time()
    found = stores.checkpoint(folder)
    ended, cpu = time.perf_counter(), time.thread_time() - cpu
    draft = CheckpointDraft(
        int(time.time() * 1000),
        {name: StoreInCheckpoint(it.layout, "changelog", None, it.changelog_offset) for name, it in found.items()},
        {},
    )
    return Pause(waited * 1000, (flushed - begun) * 1000, (ended - flushed) * 1000, cpu * 1000), draft


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
    pauses, shares = [], []
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
        pauses.append(pause)
        sent = uploaded(saved)
        shares.append(sent / new)
        console.print(
            f"checkpoint {number + 1}: {len(saved.files)} files, {saved.size / 1e6:.1f} MB; uploaded "
            f"{sent / 1e6:.1f} MB in {took_s:.2f} s, new tables {new / 1e6:.1f} MB, ratio {sent / new:.3f}; flush "
            f"{pause.flush:.0f} ms (another thread waited {pause.waited:.1f} ms at most), checkpoint "
            f"{pause.checkpoint:.1f} ms ({pause.cpu:.1f} ms of CPU)"
        )
    stores.close()
    waits = tuple(pause.checkpoint for pause in pauses)
    shape = f"{keys:,} keys, a tenth of them changed"
    return [
        Figure("checkpoint", f"{shape}: uploaded bytes over new SST bytes", tuple(shares[1:]), ".3f", at_most=1.3),
        Figure("checkpoint", "pause of the task, ms", waits, ".1f", at_most=15.0),
        Figure("checkpoint", "the same, CPU ms", tuple(pause.cpu for pause in pauses), ".1f"),
    ]


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


def measure(keys: int, rounds: int, with_start: bool = True) -> list[Figure]:
    """Measure, and print each step."""
    console = Console(soft_wrap=True)
    with TemporaryDirectory(prefix="penstock-bench-") as work:
        figures = uploads(Path(work), keys, rounds, console)
    return [*figures, *(start(keys, console) if with_start else [])]


def main(
    keys: Annotated[int, typer.Option(min=1000, help="Number of keys.")] = KEYS,
    rounds: Annotated[int, typer.Option(min=2, help="Number of checkpoints that are uploaded.")] = 6,
    with_start: Annotated[bool, typer.Option("--start/--no-start", help="Measure the start, too.")] = True,
) -> None:
    """Measure checkpoints."""
    for figure in measure(keys, rounds, with_start):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    typer.run(main)
