"""The rows of one kind that the stages have written, as a hand-over takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.row_files import FileReader, Files, rows_of

Consume = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Takes rows of ``OUTPUT_SCHEMA``, and yields rows of a schema of its own."""


@dataclass(frozen=True)
class _ReadAndConsume:
    reader: FileReader
    consume: Consume

    def run(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.consume(self.reader.run(numbers))


@dataclass(frozen=True)
class StageRows:
    """The rows of ``files``, of OUTPUT_SCHEMA. Those of one writer are in order."""

    spark: SparkSession
    location: ObjectLocation
    files: Sequence[Files]

    def consumed(self, consume: Consume, schema: str) -> list[Row]:
        """Returns what ``consume`` yields, of ``schema``, in a single job: every core has work, and no core more than
        one call of ``consume``. The process that reads a file also calls ``consume``; all files of a writer go to one
        call."""
        cores = self.spark.sparkContext.defaultParallelism
        numbers = self.spark.range(0, len(self.files), 1, max(1, len(self.files))).coalesce(cores)
        work = _ReadAndConsume(FileReader(self.location, self.files), consume)
        return numbers.mapInArrow(work.run, schema).collect()

    def frame(self) -> DataFrame:
        """Returns the rows as a data frame."""
        return rows_of(self.spark, self.location, self.files)
