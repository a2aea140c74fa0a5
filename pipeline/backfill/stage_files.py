"""Runs the tasks of a stage in Spark's executors, and keeps what they yield as Parquet files in object storage.

Spark may run a partition several times, and an executor or the driver may be killed at any moment. So an attempt writes
files of its own names, and then notes that they are whole, in an object that is created only if absent. The first
attempt whose note is there has done the work; files without a note are nothing.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext

from penstock.checkpoints.hand_overs import HandedOverTask
from penstock.common.errors import ObjectExistsError
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.row_files import StageFile, StageFileWriter, by_column
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.rows import CHANGELOG, CHECKPOINT, DROPPED, END, OFFSET, OUTPUT_ARROW, READ, REPARTITION, SINK
from penstock.pipeline.task_hosts.contracts import RestoredRows, StageInput, TaskInput

FINISHED_SCHEMA = "first_task int"
_FINISHED_ARROW = pa.schema([("first_task", pa.int32())])
RECORDS = frozenset({REPARTITION, SINK, CHANGELOG, END})
_TELL_EACH_S = 2.0

RunTasks = Callable[[Sequence[int], StageInput], Iterator[pa.RecordBatch]]
"""Runs the tasks of these numbers over their input, and yields rows of ``OUTPUT_SCHEMA``: a host of tasks."""


class FinishedTasks(Struct, frozen=True):
    """The results of the tasks of one Spark partition: their files by the kind of their rows, and their reports.

    ``part``: the number of the part, if a task was split. ``rows``: number of rows that they took. ``read``: number of
    records by topic. ``offsets``: topic, partition and metadata of each source partition. ``checkpoints``: their stores
    in object storage, by task, if they are handed over that way, too.
    """

    tasks: list[int]
    rows: int
    files: dict[str, StageFile]
    read: dict[str, int]
    dropped: int
    offsets: list[tuple[str, int, str]]
    part: int = 0
    checkpoints: dict[str, HandedOverTask] = {}


class Unit(NamedTuple):
    """The tasks of one Spark partition, or one part of a task, with their input."""

    tasks: tuple[int, ...]
    part: int
    input: StageInput


@dataclass(frozen=True)
class StageWriter:
    """Runs tasks, and writes what they yield to files below ``prefix``; ``run`` is given to ``mapInArrow``.

    Spark's rows are indexes into ``units``.
    """

    run_tasks: RunTasks
    units: Sequence[Unit]
    location: ObjectLocation
    prefix: str
    kept: frozenset[str] = RECORDS
    """The kinds of rows that are kept in files; other rows of ``RECORDS`` are of no use."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row for each index when all results of its tasks are in storage."""
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield self._finish(self.units[index])

    def _finish(self, unit: Unit) -> pa.RecordBatch:
        objects, tasks = self.location.open(), list(unit.tasks)
        counted = _CountedInput(unit.input, objects, f"{self.prefix}progress/{_spark_partition()}-{tasks[0]}")
        with tempfile.TemporaryDirectory(prefix="penstock-stage-") as folder:
            files = StageFileWriter(Path(folder), objects, f"{self.prefix}{uuid.uuid4().hex}")
            reports = pa.Table.from_batches([*self._reports(tasks, counted, files)], OUTPUT_ARROW)
            finished = _finished(unit, counted.rows, files.close(), reports)
        counted.tell()
        note, content = finished_name(self.prefix, tasks[0], unit.part), msgspec.json.encode(finished)
        try:
            objects.create(note, content)
        except ObjectExistsError:
            # The client repeats a request of which it has seen no answer: then the note is this attempt's own.
            if objects.read(note) != content:  # another attempt was faster: its results count
                objects.delete(file.name for file in finished.files.values())
        return pa.RecordBatch.from_arrays([pa.array(tasks[:1], pa.int32())], schema=_FINISHED_ARROW)

    def _reports(self, tasks: list[int], given: StageInput, files: StageFileWriter) -> Iterator[pa.RecordBatch]:
        for batch in self.run_tasks(tasks, given):
            for kind, rows in by_column(batch, "kind"):
                if kind in self.kept:
                    files.write(str(kind), rows)
                elif kind not in RECORDS:
                    yield rows


class _CountedInput(StageInput):
    """Counts the rows that tasks take. Now and then it writes their number, for the driver's progress."""

    def __init__(self, counted: StageInput, objects: ObjectStore, progress: str) -> None:
        self._counted = counted
        self._objects = objects
        self._progress = progress
        self._told_s = time.monotonic()
        self.rows = 0

    def open(self, tasks: Sequence[int]) -> TaskInput:
        return _CountedRows(self._counted.open(tasks), self._add)

    def _add(self, rows: int) -> None:
        self.rows += rows
        if time.monotonic() - self._told_s >= _TELL_EACH_S:
            self.tell()

    def tell(self) -> None:
        """Write the number of rows."""
        self._told_s = time.monotonic()
        self._objects.put(self._progress, str(self.rows).encode())


class _CountedRows(TaskInput):
    def __init__(self, counted: TaskInput, add: Callable[[int], None]) -> None:
        self._counted = counted
        self._add = add

    def restored(self) -> Iterator[RestoredRows]:
        for restored in self._counted.restored():
            yield restored
            self._add(len(restored.rows))

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self._counted.chunks():
            yield chunk
            self._add(len(chunk.order))

    def close(self) -> None:
        self._counted.close()


def finished_name(prefix: str, first_task: int, part: int = 0) -> str:
    """Returns the name of the note of the tasks of one Spark partition, of which ``first_task`` is the first."""
    return f"{prefix}finished/{first_task}-{part}.json"


def _finished(unit: Unit, rows: int, files: dict[str, StageFile], reports: pa.Table) -> FinishedTasks:
    read: dict[str, int] = {}
    offsets: list[tuple[str, int, str]] = []
    checkpoints: dict[str, HandedOverTask] = {}
    dropped = 0
    for row in reports.to_pylist():
        if row["kind"] == OFFSET:
            offsets.append((row["topic"], row["partition"], row["value"].decode()))
        elif row["kind"] == READ:
            read[row["topic"]] = read.get(row["topic"], 0) + row["sequence"]
        elif row["kind"] == DROPPED:
            dropped += row["sequence"]
        elif row["kind"] == CHECKPOINT:
            checkpoints[row["topic"]] = msgspec.json.decode(row["value"], type=HandedOverTask)
    return FinishedTasks(list(unit.tasks), rows, files, read, dropped, offsets, unit.part, checkpoints)


def _spark_partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
