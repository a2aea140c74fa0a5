"""Rows of a stage in Parquet files: written by a task, read whole, or by the tasks for which they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of_file
from penstock.objects.ranged_file import RangedFile
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.reading.due_records import DueBatch
from penstock.pipeline.rows import OUTPUT_ARROW, OUTPUT_SCHEMA, REPARTITION, headers_of

_ROWS_PER_GROUP = 100_000
_BYTES_PER_GROUP = 32 << 20
_ROWS_PER_TARGET = 8_000
"""Rows for one partition in a row group: a reader merges one group of each writer at a time."""
_BYTES_OF_TARGETS = 64 << 20
_COLUMNS = ("sequence", "key", "value", "timestamp", "headers")
_DAMAGED = "is damaged. Run the backfill again without --resume"


class RowGroup(Struct, frozen=True):
    """The partition for which all rows of a row group are, and their number."""

    topic: str
    partition: int
    rows: int


class StageFile(Struct, frozen=True):
    """A Parquet file with rows of one kind: its name, its number of rows, its bytes and its hash. ``groups``: its row
    groups, if the rows are for repartition topics."""

    name: str
    rows: int
    size: int
    digest: str
    groups: list[RowGroup] = []


Files = Sequence[StageFile]
"""The files of one writer, in order: one, or those of its parts."""


class StageFileWriter:
    """One Parquet file for each kind of rows, made on the local disk and uploaded whole."""

    def __init__(self, folder: Path, objects: ObjectStore, prefix: str) -> None:
        self._folder = folder
        self._objects = objects
        self._prefix = prefix
        self._files: dict[str, _File] = {}

    def write(self, kind: str, rows: pa.RecordBatch) -> None:
        """Append rows to the file of their kind."""
        file = self._files.get(kind)
        if file is None:
            made = _TargetsFile if kind == REPARTITION else _File
            file = self._files[kind] = made(self._folder / kind)
        file.write(rows)

    def close(self) -> dict[str, StageFile]:
        """Upload the files."""
        uploaded = {}
        for kind, file in self._files.items():
            file.close()
            name = f"{self._prefix}-{kind}.parquet"
            self._objects.upload(name, file.path)
            size, digest = file.path.stat().st_size, digest_of_file(file.path)
            uploaded[kind] = StageFile(name, file.rows, size, digest, file.groups)
        return uploaded


class _File:
    """Rows in the order in which they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.groups: list[RowGroup] = []
        self._writer = pq.ParquetWriter(
            path, OUTPUT_ARROW, compression="zstd", compression_level=1, write_page_checksum=True
        )
        self._waiting = _Waiting()

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.add(rows)
        if self._waiting.rows >= _ROWS_PER_GROUP or self._waiting.bytes >= _BYTES_PER_GROUP:
            self._write_group(self._waiting)

    def close(self) -> None:
        self._write_group(self._waiting)
        self._writer.close()

    def _write_group(self, waiting: _Waiting) -> int:
        count = waiting.rows
        if count:
            self._writer.write_table(pa.Table.from_batches(waiting.batches), row_group_size=count)
            self.rows += count
            waiting.clear()
        return count


class _TargetsFile(_File):
    """Rows for partitions of repartition topics: each row group has rows for one of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._targets: dict[tuple[str, int], _Waiting] = {}

    @override
    def write(self, rows: pa.RecordBatch) -> None:
        for topic, of_topic in by_column(rows, "topic"):
            for partition, own in by_column(of_topic, "partition"):
                waiting = self._targets.setdefault((topic, partition), _Waiting())
                waiting.add(own)
                if waiting.rows >= _ROWS_PER_TARGET:
                    self._write_target((topic, partition))
        while sum(waiting.bytes for waiting in self._targets.values()) > _BYTES_OF_TARGETS:
            self._write_target(max(self._targets, key=lambda target: self._targets[target].bytes))

    @override
    def close(self) -> None:
        for target in list(self._targets):
            self._write_target(target)
        self._writer.close()

    def _write_target(self, target: tuple[str, int]) -> None:
        if count := self._write_group(self._targets.pop(target)):
            self.groups.append(RowGroup(*target, count))


class _Waiting:
    """Rows that wait for their row group."""

    def __init__(self) -> None:
        self.clear()

    def add(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)
        self.rows += len(rows)
        self.bytes += rows.nbytes

    def clear(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.bytes = 0


def by_column(rows: pa.RecordBatch, name: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Yields each value of a column with its rows, which keep their order."""
    column = rows.column(name)
    values = pc.unique(column).to_pylist()
    if len(values) == 1:
        yield values[0], rows
        return
    order = pc.sort_indices(column)  # stable
    grouped = rows.take(order)
    counts = pc.value_counts(grouped.column(name))
    begin = 0
    for value, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        yield value, grouped.slice(begin, count)
        begin += count


def written_to(objects: ObjectStore, files: Iterable[Files], target: TopicPartition) -> list[Iterator[RecordBatch]]:
    """Returns, for each writer that has some, the records that it sent to ``target``, in its order."""
    return [
        chain.from_iterable(_records_for(objects, file, target) for file in own) for own in _files_for(files, target)
    ]


def placed_in(objects: ObjectStore, files: Iterable[Files], target: TopicPartition) -> list[Iterator[DueBatch]]:
    """Like :func:`written_to`, for what a pass over a cycle wrote, with the places in the cycle's order."""
    return [
        chain.from_iterable(_placed_for(objects, file, target) for file in own) for own in _files_for(files, target)
    ]


def _files_for(files: Iterable[Files], target: TopicPartition) -> Iterator[list[StageFile]]:
    for of_writer in files:
        own = [file for file in of_writer if any((group.topic, group.partition) == target for group in file.groups)]
        if own:
            yield own


def _placed_for(objects: ObjectStore, file: StageFile, target: TopicPartition) -> Iterator[DueBatch]:
    for rows in _rows_for(objects, file, target, [*_COLUMNS, "due"]):
        due, places = rows.column("due").to_numpy(), rows.column("sequence").to_numpy()
        yield DueBatch(_records_of(rows, target), due, places)


def _records_for(objects: ObjectStore, file: StageFile, target: TopicPartition) -> Iterator[RecordBatch]:
    for rows in _rows_for(objects, file, target, _COLUMNS):
        yield _records_of(rows, target)


def _records_of(rows: pa.Table, target: TopicPartition) -> RecordBatch:
    return RecordBatch(
        target,
        rows.column("key").to_pylist(),
        rows.column("value").to_pylist(),
        rows.column("timestamp").to_pylist(),
        rows.column("sequence").to_pylist(),
        headers_of(rows.column("headers")),
    )


def _rows_for(
    objects: ObjectStore, file: StageFile, target: TopicPartition, columns: Sequence[str]
) -> Iterator[pa.Table]:
    try:
        source = pa.PythonFile(RangedFile(objects, file.name, file.size), mode="r")
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            for number, group in enumerate(file.groups):
                if (group.topic, group.partition) == target:
                    yield parquet.read_row_group(number, columns).combine_chunks()
    except (OSError, pa.ArrowInvalid) as error:
        raise StreamsError(f"{file.name!r} in {objects.url} {_DAMAGED} ({error})") from error


@dataclass(frozen=True)
class FileReader:
    """Reads files of a stage; ``run`` is given to ``mapInArrow`` over the numbers of the files."""

    location: ObjectLocation
    files: Sequence[Files]

    def run(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each file, in order."""
        objects = self.location.open()
        with tempfile.TemporaryDirectory(prefix="penstock-stage-") as folder:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    for file in self.files[number]:
                        yield from _rows(objects, file, Path(folder) / "rows.parquet")


def _rows(objects: ObjectStore, file: StageFile, local: Path) -> Iterator[pa.RecordBatch]:
    objects.download(file.name, local)
    if digest_of_file(local) != file.digest:
        raise StreamsError(
            f"{file.name!r} in {objects.url}, whose hash is not the one that was noted when it was written, {_DAMAGED}"
        )
    with pq.ParquetFile(local) as parquet:
        yield from parquet.iter_batches(batch_size=10_000)


def rows_of(spark: SparkSession, location: ObjectLocation, files: Sequence[Files]) -> DataFrame:
    """Returns the rows of ``files``, of OUTPUT_SCHEMA: one Spark partition for the files of each writer, in order."""
    numbers = spark.range(0, len(files), 1, max(1, len(files)))
    return numbers.mapInArrow(FileReader(location, files).run, OUTPUT_SCHEMA)
