"""Spark reads the records of an archive: executors fetch the files by penstock's object storage, without Hadoop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from penstock.common.ids import TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.manifest import ArchivedFile
from penstock.pipeline.archive.records import FILE_SCHEMA, read_file
from penstock.pipeline.offset_ranges import OffsetRange, Ranges

RECORDS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp long, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of archived records in Spark: those of its Kafka source, but the timestamp is in ms since 1970."""
_WORK = "name string, digest string, begin long, end long"
_BATCH_ROWS = 10_000


def archived_records(
    spark: SparkSession,
    location: ObjectLocation,
    files: Mapping[TopicPartition, Sequence[ArchivedFile]],
    ranges: Ranges,
) -> DataFrame | None:
    """Returns the records of ``ranges`` with columns :data:`RECORDS`, in any order; None if there are none.

    ``files``: those that :meth:`ArchivedTopic.files` returns for each partition and its range. A file whose hash is not
    that of the manifest fails the job with ArchiveError, and yields no record.
    """
    work = [
        (file.name, file.digest, ranges[partition].begin, ranges[partition].end)
        for partition, its in files.items()
        for file in its
    ]
    if not work:
        return None
    # One task for each file: a shuffle would put several into one task, and none into others.
    each = spark.sparkContext.parallelize(work, len(work))
    return spark.createDataFrame(each, _WORK).mapInArrow(partial(_read_files, location), RECORDS)


def _read_files(location: ObjectLocation, work: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    objects = location.open()
    for batch in work:
        for row in batch.to_pylist():
            file = read_file(objects, row["name"], row["digest"])
            for records in file.iter_batches(_BATCH_ROWS, columns=FILE_SCHEMA.names):
                yield from _as_read(records, OffsetRange(row["begin"], row["end"]))


def _as_read(records: pa.RecordBatch, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yields those of ``records`` that are wanted, as Spark takes them."""
    offsets = records.column("offset")
    begin = int(pc.sum(pc.less(offsets, wanted.begin)).as_py() or 0)
    end = int(pc.sum(pc.less(offsets, wanted.end)).as_py() or 0)
    if end > begin:
        chosen = records.slice(begin, end - begin)
        times = chosen.column("timestamp").cast(pa.int64())
        yield chosen.set_column(chosen.schema.get_field_index("timestamp"), "timestamp", times)
