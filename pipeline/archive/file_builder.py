"""Makes one Parquet file of an archive in memory, and what its manifest has of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common.errors import ArchiveError, ObjectExistsError
from penstock.common.offset_ranges import OffsetRange
from penstock.objects.contracts import ObjectStore
from penstock.objects.digests import digest_of
from penstock.pipeline.archive.manifest import ArchivedFile, file_name
from penstock.pipeline.archive.records import ContentDigest

_GROUP_BYTES = 32 << 20
_PLAIN = ("value",)
"""Columns that are not worth a dictionary, nor statistics: their values seldom repeat, and may be long."""


class FileBuilder:
    """Takes the records of one file in the order of their offsets."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        indexed = [name for name in schema.names if name not in _PLAIN and name != "headers"]
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", compression_level=1, write_statistics=indexed,
            use_dictionary=[name for name in indexed if name not in ("offset", "timestamp")],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
        )  # fmt: skip
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._content = ContentDigest()
        self._times: list[int] = []
        self.rows = 0
        self.last_offset = -1

    @property
    def bytes(self) -> int:
        """The size of the file so far, without the records that wait for their row group."""
        return int(self._sink.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records, of which there is at least one."""
        self._content.update(batch)
        times = batch.column("timestamp").cast(pa.int64())
        self._times = [self._times[0] if self._times else times[0].as_py(), times[-1].as_py()]
        self.rows += batch.num_rows
        self.last_offset = batch.column("offset")[-1].as_py()
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= _GROUP_BYTES:
            self._write_group()

    def store(
        self, objects: ObjectStore, folder: str, partition: int, offsets: OffsetRange, *, undecodable: int = 0,
        decoded: str = "", taken: frozenset[str] = frozenset(), mark: str = "", plain: bool = True,
    ) -> ArchivedFile:  # fmt: skip
        """Close the file, and store it under a name that no other content ever had.

        ``mark`` becomes part of the name if ``plain`` is False, and if the name without it is in ``taken``: names that
        an earlier run has used, and may still delete. An attempt of the same task may have stored the same before.
        """
        self._write_group()
        self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        digest = digest_of(content)
        names = [
            file_name(folder, partition, offsets, ending) for ending in ([""] if plain else []) + [mark, digest[:8]]
        ]
        name = _create(objects, [it for it in names if it not in taken], content, digest)
        return ArchivedFile(
            name=name, partition=partition, begin=offsets.begin, end=offsets.end, rows=self.rows, bytes=len(content),
            digest=digest, content_digest=self._content.hexdigest(), first_timestamp=self._times[0],
            last_timestamp=self._times[1], undecodable=undecodable, decoded=decoded,
        )  # fmt: skip

    def _write_group(self) -> None:
        if self._waiting:
            group = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(group, row_group_size=group.num_rows)
            self._waiting, self._waiting_bytes = [], 0


def _create(objects: ObjectStore, names: list[str], content: bytes, digest: str) -> str:
    """Create an object under the first of ``names`` that is free; returns its name. One with the same content is as
    good. Objects are never overwritten: a file that a manifest names stays as it is, whatever lost tasks still do."""
    for name in names:
        try:
            objects.create(name, content)
        except ObjectExistsError:
            if digest_of(objects.read(name)) != digest:
                continue
        return name
    raise ArchiveError(f"objects {', '.join(names)} are in {objects.url} already, with other content: delete them")
