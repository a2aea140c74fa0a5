"""Hand-overs that change nothing in Kafka: results and state as Parquet files, or none at all."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark import TaskContext
from typing_extensions import override

from penstock.common.errors import ApplicationStateError, ObjectExistsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.contracts import HandOver
from penstock.pipeline.backfill.stage_rows import StageRows
from penstock.pipeline.rows import OUTPUT_ARROW, WRITTEN_ARROW, WRITTEN_SCHEMA

MANIFEST = "backfill.json"
_COLUMNS = ["topic", "partition", "key", "value", "timestamp", "headers"]
_FILE_SCHEMA = pa.schema([OUTPUT_ARROW.field(name) for name in _COLUMNS])
_OUTPUT_SCHEMA = "topic string, written long, name string"
_OUTPUT_ARROW = pa.schema([("topic", pa.string()), ("written", pa.int64()), ("name", pa.string())])


class OutputFile(Struct, frozen=True):
    """A Parquet file with records of one topic."""

    name: str
    topic: str
    rows: int


class OutputManifest(Struct, frozen=True):
    """All files of an output. ``offsets``: topic, partition and the offset up to which records were processed."""

    application_id: str
    results: list[OutputFile]
    state: list[OutputFile]
    offsets: list[tuple[str, int, int]]


@dataclass
class ParquetOutput(HandOver):
    """Writes results and state as Parquet files to object storage, and then a manifest, created only if absent.

    The files are below ``results/<topic>/`` and ``state/<changelog>/``. A row is a record with the bytes of its key and
    value. A partition of −1 is that of Kafka's default partitioner.
    """

    application_id: str
    location: ObjectLocation
    _files: dict[str, list[OutputFile]] = field(default_factory=dict)

    @override
    def note(self) -> None:
        refuse_if_written(self.location)

    @override
    def results(self, rows: StageRows) -> Mapping[str, int]:
        return self._write(rows, "results")

    @override
    def state(self, rows: StageRows) -> Mapping[str, int]:
        return self._write(rows, "state")

    @override
    def offsets(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        listed = [(*at, found.offset) for at, found in sorted(offsets.items())]
        manifest = OutputManifest(self.application_id, self._files["results"], self._files["state"], listed)
        objects, content = self.location.open(), msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        try:
            objects.create(MANIFEST, content)
        except ObjectExistsError:
            if objects.read(MANIFEST) != content:  # else the client has repeated its request
                raise _written(self.location) from None

    @override
    def withdraw(self) -> None:
        """Nothing was prepared."""

    def _write(self, rows: StageRows, folder: str) -> Mapping[str, int]:
        written = rows.consumed(OutputWriter(self.location, folder).run, _OUTPUT_SCHEMA)
        self._files[folder] = [OutputFile(row["name"], row["topic"], row["written"]) for row in written]
        counts: Counter[str] = Counter()
        for file in self._files[folder]:
            counts[file.topic] += file.rows
        return dict(counts)


def refuse_if_written(location: ObjectLocation) -> None:
    """Raise ApplicationStateError if there is the output of a backfill already."""
    if location.open().info(MANIFEST) is not None:
        raise _written(location)


def _written(location: ObjectLocation) -> ApplicationStateError:
    return ApplicationStateError(
        f"--output: {location.open().url} holds the output of another backfill ({MANIFEST}): give another place, or "
        "delete that output"
    )


@dataclass(frozen=True)
class OutputWriter:
    """Writes rows to one Parquet file for each topic, in order; ``run`` is given to ``mapInArrow``."""

    location: ObjectLocation
    folder: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields a row for each file that is written. A second attempt overwrites the files of the first one."""
        objects = self.location.open()
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        written: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(prefix="penstock-output-") as folder:
            files: dict[str, pq.ParquetWriter] = {}
            for batch in batches:
                for topic in pc.unique(batch.column("topic")).to_pylist():
                    if topic not in files:
                        files[topic] = pq.ParquetWriter(Path(folder) / quote(topic), _FILE_SCHEMA, compression="zstd")
                    rows = batch.filter(pc.equal(batch.column("topic"), topic)).select(_COLUMNS)
                    files[topic].write_batch(rows)
                    written[topic] += len(rows)
            for topic, file in files.items():
                file.close()
                name = f"{self.folder}/{topic}/part-{part:05}.parquet"
                objects.upload(name, Path(folder) / quote(topic))
                columns = [pa.array([topic], pa.string()), pa.array([written[topic]], pa.int64()), pa.array([name])]
                yield pa.RecordBatch.from_arrays(columns, schema=_OUTPUT_ARROW)


@dataclass(frozen=True)
class NoOutput(HandOver):
    """Hands nothing over: results and state are counted."""

    @override
    def note(self) -> None:
        """Nothing is written."""

    @override
    def results(self, rows: StageRows) -> Mapping[str, int]:
        return _counted(rows)

    @override
    def state(self, rows: StageRows) -> Mapping[str, int]:
        return _counted(rows)

    @override
    def offsets(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Nothing is committed."""

    @override
    def withdraw(self) -> None:
        """Nothing was prepared."""


def _counted(rows: StageRows) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for row in rows.consumed(_count, WRITTEN_SCHEMA):
        counts[row["topic"]] += row["written"]
    return dict(counts)


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts: Counter[str] = Counter()
    for batch in batches:
        for entry in pc.value_counts(batch.column("topic")).to_pylist():
            counts[entry["values"]] += entry["counts"]
    columns = [pa.array(counts.keys(), pa.string()), pa.array(counts.values(), pa.int64())]
    yield pa.RecordBatch.from_arrays(columns, schema=WRITTEN_ARROW)
