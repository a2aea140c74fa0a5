"""The rows of a stage as Parquet files: written and read by Spark's executors, through object storage.

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
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from penstock.common.errors import ObjectExistsError, StreamsError
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of_file
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.rows import (
    CHANGELOG,
    DROPPED,
    OFFSET,
    OUTPUT_ARROW,
    OUTPUT_SCHEMA,
    READ,
    REPARTITION,
    SINK,
)

FINISHED_SCHEMA = "first_task int"
_FINISHED_ARROW = pa.schema([("first_task", pa.int32())])
_RECORDS = (REPARTITION, SINK, CHANGELOG)
_ROWS_PER_GROUP = 100_000
_BYTES_PER_GROUP = 32 << 20
_TELL_EACH_S = 2.0

RunTasks = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Rows of ``INPUT_SCHEMA`` in, rows of ``OUTPUT_SCHEMA`` out: a host of tasks."""


class StageFile(Struct, frozen=True):
    """A Parquet file with rows of one kind: its name, its number of rows, its bytes and its hash."""

    name: str
    rows: int
    size: int
    digest: str


class FinishedTasks(Struct, frozen=True):
    """The results of the tasks of one Spark partition: their files by the kind of their rows, and their reports.

    ``rows``: number of rows that they took. ``read``: number of records by topic. ``offsets``: topic, partition and
    metadata of each source partition.
    """

    tasks: list[int]
    rows: int
    files: dict[str, StageFile]
    read: dict[str, int]
    dropped: int
    offsets: list[tuple[str, int, str]]


@dataclass(frozen=True)
class StageWriter:
    """Runs tasks, and writes what they yield to files below ``prefix``; ``run`` is given to ``mapInArrow``."""

    run_tasks: RunTasks
    location: ObjectLocation
    prefix: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row when all results are in storage; none if there were no rows."""
        filled = (batch for batch in batches if len(batch))
        if (first := next(filled, None)) is None:
            return
        objects = self.location.open()
        taken = _Taken(chain([first], filled), objects, f"{self.prefix}progress/{_spark_partition()}")
        with tempfile.TemporaryDirectory(prefix="penstock-stage-") as folder:
            files = _Files(Path(folder), objects, f"{self.prefix}{uuid.uuid4().hex}")
            reports = pa.Table.from_batches([*self._reports(taken, files)], OUTPUT_ARROW)
            finished = _finished(sorted(taken.tasks), taken.rows, files.close(), reports)
        taken.tell()
        try:
            objects.create(finished_name(self.prefix, finished.tasks[0]), msgspec.json.encode(finished))
        except ObjectExistsError:  # another attempt was faster: its results count
            objects.delete(file.name for file in finished.files.values())
        yield pa.RecordBatch.from_arrays([pa.array(finished.tasks[:1], pa.int32())], schema=_FINISHED_ARROW)

    def _reports(self, taken: _Taken, files: _Files) -> Iterator[pa.RecordBatch]:
        for batch in self.run_tasks(taken):
            kinds = batch.column("kind")
            present = pc.unique(kinds).to_pylist()
            for kind in present:
                rows = batch if len(present) == 1 else batch.filter(pc.equal(kinds, kind))
                if kind in _RECORDS:
                    files.write(kind, rows)
                else:
                    yield rows


class _Taken:
    """The rows that tasks take, counted. Now and then it writes their number, for the driver's progress."""

    def __init__(self, batches: Iterator[pa.RecordBatch], objects: ObjectStore, progress: str) -> None:
        self._batches = batches
        self._objects = objects
        self._progress = progress
        self._told_s = time.monotonic()
        self.rows = 0
        self.tasks: set[int] = set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.tasks.update(pc.unique(batch.column("task")).to_pylist())
            if time.monotonic() - self._told_s >= _TELL_EACH_S:
                self.tell()
            yield batch
            self.rows += len(batch)

    def tell(self) -> None:
        """Write the number of rows."""
        self._told_s = time.monotonic()
        self._objects.put(self._progress, str(self.rows).encode())


class _Files:
    """One Parquet file for each kind of rows, made on the local disk and uploaded whole."""

    def __init__(self, folder: Path, objects: ObjectStore, prefix: str) -> None:
        self._folder = folder
        self._objects = objects
        self._prefix = prefix
        self._writers: dict[str, _File] = {}

    def write(self, kind: str, rows: pa.RecordBatch) -> None:
        """Append rows to the file of their kind."""
        if kind not in self._writers:
            self._writers[kind] = _File(self._folder / kind)
        self._writers[kind].write(rows)

    def close(self) -> dict[str, StageFile]:
        """Upload the files."""
        uploaded = {}
        for kind, file in self._writers.items():
            file.close()
            name = f"{self._prefix}-{kind}.parquet"
            self._objects.upload(name, file.path)
            uploaded[kind] = StageFile(name, file.rows, file.path.stat().st_size, digest_of_file(file.path))
        return uploaded


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._writer = pq.ParquetWriter(path, OUTPUT_ARROW, compression="zstd", compression_level=1)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self._waiting_rows += len(rows)
        if self._waiting_rows >= _ROWS_PER_GROUP or self._waiting_bytes >= _BYTES_PER_GROUP:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=self._waiting_rows)
        self.rows += self._waiting_rows
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0


@dataclass(frozen=True)
class FileReader:
    """Reads files of a stage; ``run`` is given to ``mapInArrow`` over the numbers of the files."""

    location: ObjectLocation
    files: Sequence[StageFile]

    def run(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each file, in order."""
        objects = self.location.open()
        with tempfile.TemporaryDirectory(prefix="penstock-stage-") as folder:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield from _rows(objects, self.files[number], Path(folder) / "rows.parquet")


def _rows(objects: ObjectStore, file: StageFile, local: Path) -> Iterator[pa.RecordBatch]:
    objects.download(file.name, local)
    if digest_of_file(local) != file.digest:
        raise StreamsError(
            f"{file.name!r} in {objects.url} is damaged: its hash is not the one that was noted when it was written. "
            "Run the backfill again without --resume"
        )
    with pq.ParquetFile(local) as parquet:
        yield from parquet.iter_batches(batch_size=10_000)


def rows_of(spark: SparkSession, location: ObjectLocation, files: Sequence[StageFile]) -> DataFrame:
    """Returns the rows of ``files``, of OUTPUT_SCHEMA: one Spark partition for each file, in its order."""
    numbers = spark.range(0, len(files), 1, max(1, len(files)))
    return numbers.mapInArrow(FileReader(location, files).run, OUTPUT_SCHEMA)


def finished_name(prefix: str, first_task: int) -> str:
    """Returns the name of the note of the tasks of one Spark partition, of which ``first_task`` is the first."""
    return f"{prefix}finished/{first_task}.json"


def _finished(tasks: list[int], rows: int, files: dict[str, StageFile], reports: pa.Table) -> FinishedTasks:
    read: dict[str, int] = {}
    offsets: list[tuple[str, int, str]] = []
    dropped = 0
    for row in reports.to_pylist():
        if row["kind"] == OFFSET:
            offsets.append((row["topic"], row["partition"], row["value"].decode()))
        elif row["kind"] == READ:
            read[row["topic"]] = read.get(row["topic"], 0) + row["sequence"]
        elif row["kind"] == DROPPED:
            dropped += row["sequence"]
    return FinishedTasks(tasks, rows, files, read, dropped, offsets)


def _spark_partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
