"""Writes the files of an archive, in Spark's executors: each Spark task has the records of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from penstock.common.errors import ArchiveError
from penstock.common.ids import TopicPartition
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.decoding import Decoding
from penstock.pipeline.archive.file_builder import FileBuilder
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.records import FILE_SCHEMA
from penstock.pipeline.offset_ranges import OffsetRange, Ranges

FILE_BYTES = 64 << 20
"""The size at which a file is closed. A task holds one file in memory."""
WRITTEN = "topic string, file binary"
"""The columns of the rows that a task returns: one for each file."""


@dataclass(frozen=True)
class FileWriter:
    """Writes the files of one batch, and is the same value for all of its tasks. ``ranges``: the offsets of the
    batch."""

    location: ObjectLocation
    folders: Mapping[str, str]
    ranges: Ranges
    taken: frozenset[str]
    mark: str
    decoding: Mapping[str, Decoding]
    file_bytes: int = FILE_BYTES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the records of one Spark task; yields a row for each file."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        partition = _partition_of(first)
        objects = self.location.open()
        for file in _Lane(self, objects, partition, self.ranges[partition]).write(first, filled):
            yield pa.RecordBatch.from_pydict({"topic": [partition.topic], "file": [msgspec.json.encode(file)]})


class _Lane:
    """Writes the files of one partition."""

    def __init__(
        self, writer: FileWriter, objects: ObjectStore, partition: TopicPartition, offsets: OffsetRange
    ) -> None:
        self._writer = writer
        self._objects = objects
        self._partition = partition
        self._offsets = offsets
        self._decoder = writer.decoding.get(partition.topic, Decoding()).bound(partition.topic)
        self._schema = self._decoder.schema
        self._file = FileBuilder(self._schema)
        self._begin = offsets.begin
        self._undecodable = 0

    def write(self, first: pa.RecordBatch, others: Iterable[pa.RecordBatch]) -> Iterator[ArchivedFile]:
        """Yields each file when it is stored."""
        self._add(first)
        for batch in others:
            if self._file.bytes >= self._writer.file_bytes:
                yield self._store(self._file.last_offset + 1)
            self._add(batch)
        yield self._store(self._offsets.end)

    def _add(self, batch: pa.RecordBatch) -> None:
        # Spark gives each task one range of one partition as long as minPartitions is not set.
        if _partition_of(batch) != self._partition:
            raise ArchiveError(f"records of {_partition_of(batch)} came among those of {self._partition}: report this")
        records = pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in FILE_SCHEMA], schema=FILE_SCHEMA
        )
        decoded, refused = self._decoder.with_columns(records)
        self._undecodable += refused
        self._file.add(decoded)

    def _store(self, end: int) -> ArchivedFile:
        stored = self._file.store(
            self._objects,
            self._writer.folders[self._partition.topic],
            self._partition.partition,
            OffsetRange(self._begin, end),
            undecodable=self._undecodable,
            decoded=self._decoder.name,
            taken=self._writer.taken,
            mark=self._writer.mark,
        )
        self._file, self._begin, self._undecodable = FileBuilder(self._schema), end, 0
        return stored


def _partition_of(batch: pa.RecordBatch) -> TopicPartition:
    return TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
