"""Writes the files of an archive, in Spark's workers: each reads offsets of one partition, by penstock's consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.kafka.clients import KafkaClients
from penstock.kafka.range_reader import KafkaReader
from penstock.objects.contracts import ObjectStore
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.decoding import Decoding
from penstock.pipeline.archive.file_builder import FileBuilder
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.records import arrow_of

FILE_BYTES = 64 << 20
"""The size at which a file is closed. A task holds one file in memory."""
WORK = "topic string, partition int, begin long, end long"
"""The columns of the rows that a task takes: offsets of a partition."""
WRITTEN = "topic string, file binary"
"""The columns of the rows that a task returns: one for each file."""


@dataclass(frozen=True)
class FileWriter:
    """Writes the files of one batch: the same value for all of its tasks."""

    location: ObjectLocation
    clients: KafkaClients
    folders: Mapping[str, str]
    taken: frozenset[str]
    mark: str
    decoding: Mapping[str, Decoding]
    file_bytes: int = FILE_BYTES

    def __call__(self, work: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and write the offsets of one Spark task; yields a row for each file."""
        objects = self.location.open()
        for batch in work:
            for row in batch.to_pylist():
                at, offsets = TopicPartition(row["topic"], row["partition"]), OffsetRange(row["begin"], row["end"])
                for file in _Part(self, objects, at, offsets).files():
                    yield pa.RecordBatch.from_pydict({"topic": [at.topic], "file": [msgspec.json.encode(file)]})


class _Part:
    """Writes the files of one part: some offsets of one partition."""

    def __init__(
        self, writer: FileWriter, objects: ObjectStore, partition: TopicPartition, offsets: OffsetRange
    ) -> None:
        self._writer = writer
        self._objects = objects
        self._partition = partition
        self._offsets = offsets
        self._decoder = writer.decoding.get(partition.topic, Decoding()).bound(partition.topic)
        self._file = FileBuilder(self._decoder.schema)
        self._begin = offsets.begin
        self._undecodable = 0

    def files(self) -> Iterator[ArchivedFile]:
        """Yields each file when it is stored."""
        reader = KafkaReader(self._writer.clients.restore_consumer(), {self._partition: self._offsets})
        with closing(reader):
            for batch in reader.batches(self._partition):
                if self._file.rows and self._file.bytes >= self._writer.file_bytes:
                    yield self._store(self._file.last_offset + 1)
                decoded, refused = self._decoder.with_columns(arrow_of(batch))
                self._undecodable += refused
                self._file.add(decoded)
        if self._file.rows:
            yield self._store(self._offsets.end)

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
        self._file, self._begin, self._undecodable = FileBuilder(self._decoder.schema), end, 0
        return stored
