"""Runs the lanes of an ingest as tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.common.errors import StreamsError
from penstock.pipeline.ingest.ingest import RunLanes
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.lane import LaneReport, LaneWriter
from penstock.pipeline.ingest.plan import Lane
from penstock.pipeline.spark.causes import causes_named
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_session import spark_session

_FAILURE, _REFUSED = "failure", "refused"
_ROWS = "kind string, text string"
_ROWS_ARROW = pa.schema([("kind", pa.string()), ("text", pa.string())])


@contextmanager
def spark_lanes(place: SparkPlace | str | None, ingest_id: str) -> Iterator[RunLanes]:
    """Yields the function that runs lanes with Spark, at a place or master URL."""
    with spark_session(place, f"ingest {ingest_id}") as spark:
        yield lambda job, lanes: run_with(spark, job, lanes)


def run_with(spark: SparkSession, job: IngestJob, lanes: Sequence[Lane]) -> list[LaneReport]:
    """Returns one report of all lanes, each of which is a task of Spark."""
    numbers = spark.range(0, len(lanes), 1, numPartitions=len(lanes))
    with causes_named("Spark has lost a task of the ingest", "Run it again: it continues where this run ended"):
        rows = numbers.mapInArrow(_LaneTask(job, tuple(lanes)).run, _ROWS).collect()
    return [
        LaneReport(
            tuple(row["text"] for row in rows if row["kind"] == _FAILURE),
            tuple(row["text"] for row in rows if row["kind"] == _REFUSED),
        )
    ]


@dataclass(frozen=True)
class _LaneTask:
    job: IngestJob
    lanes: tuple[Lane, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self._rows(self._report(self.lanes[number]))

    def _report(self, lane: Lane) -> LaneReport:
        try:
            return LaneWriter(self.job, lane).run()
        except StreamsError as error:  # the other lanes are not ended by it
            return LaneReport((str(error),), ())

    def _rows(self, report: LaneReport) -> pa.RecordBatch:
        rows = [(_FAILURE, text) for text in report.failures] + [(_REFUSED, text) for text in report.refused]
        columns = [pa.array([row[part] for row in rows], pa.string()) for part in (0, 1)]
        return pa.RecordBatch.from_arrays(columns, schema=_ROWS_ARROW)
