"""The records of an archive's files as Arrow columns, and the hash of records that does not depend on their file."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.common.errors import ArchiveError, ObjectMissingError
from penstock.common.records import RecordBatch
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of, new_digest

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
FILE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("headers", HEADERS),
    ]
)
"""The columns of a file: those of Spark's Kafka source, without its ``timestampType``."""
_DAMAGED = "Restore it from a copy of the archive; if Kafka still has the records, archive the topic to another URL"


def arrow_of(batch: RecordBatch) -> pa.RecordBatch:
    """Returns records of Kafka with the columns of :data:`FILE_SCHEMA`."""
    count = len(batch)
    same = pa.array([0] * count, pa.int32())
    headers = pa.nulls(count, HEADERS) if batch.headers is None else pa.array(batch.headers, HEADERS)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.keys, pa.binary()),
            pa.array(batch.values, pa.binary()),
            pa.array([batch.partition.topic]).take(same),
            pa.array([batch.partition.partition], pa.int32()).take(same),
            pa.array(batch.offsets, pa.int64()),
            pa.array(batch.timestamps, pa.int64()).cast(FILE_SCHEMA.field("timestamp").type),
            headers,
        ],
        schema=FILE_SCHEMA,
    )


def read_file(objects: ObjectStore, name: str, digest: str) -> pq.ParquetFile:
    """Returns a file of an archive, whose hash is checked. Raises ArchiveError if it is damaged or missing."""
    try:
        content = objects.read(name)
    except ObjectMissingError:
        raise ArchiveError(f"file {name} of the archive {objects.url} is missing. {_DAMAGED}") from None
    if digest_of(content) != digest:
        raise ArchiveError(
            f"file {name} of the archive {objects.url} is damaged: its content does not fit its hash. {_DAMAGED}"
        )
    return pq.ParquetFile(pa.BufferReader(content))


class ContentDigest:
    """The hash of offsets, keys and values of records in the order of their offsets, however they come in batches.

    Each column has a hash of its own, so that the batches of a column can be hashed as they are in memory. A null is
    told from empty bytes by its length, which is hashed as -1.
    """

    def __init__(self) -> None:
        self._columns = [new_digest() for _ in range(5)]

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take the next records: a batch or a table with the columns ``offset``, ``key`` and ``value``."""
        offsets, *columns = self._columns
        for chunk in _chunks(batch.column("offset")):
            offsets.update(_fixed_bytes(chunk, 8))
        for name, (lengths, contents) in (("key", columns[:2]), ("value", columns[2:])):
            for chunk in _chunks(batch.column(name)):
                lengths.update(_fixed_bytes(pc.fill_null(pc.binary_length(chunk).cast(pa.int32()), -1), 4))
                contents.update(_content(chunk))

    def hexdigest(self) -> str:
        """Returns the hash of all records so far."""
        whole = new_digest()
        for column in self._columns:
            whole.update(column.digest())
        return whole.hexdigest()


def content_digest(tables: Iterable[pa.Table]) -> str:
    """Returns the hash of the records of tables that follow each other."""
    digest = ContentDigest()
    for table in tables:
        digest.update(table)
    return digest.hexdigest()


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _fixed_bytes(array: pa.Array, width: int) -> memoryview:
    values = memoryview(array.buffers()[1]) if len(array) else memoryview(b"")
    return values[array.offset * width : (array.offset + len(array)) * width]


def _content(array: pa.Array) -> memoryview | bytes:
    """Returns the bytes of all values of a binary array, one after the other. The room behind a null may hold bytes,
    which do not count."""
    if array.null_count:
        array = array.drop_null()
    if not len(array):
        return b""
    wide = pa.types.is_large_binary(array.type)
    ends = memoryview(array.buffers()[1]).cast("q" if wide else "i")
    content = memoryview(array.buffers()[2]) if array.buffers()[2] is not None else memoryview(b"")
    return content[ends[array.offset] : ends[array.offset + len(array)]]
