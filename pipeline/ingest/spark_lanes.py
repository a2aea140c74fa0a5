"""Runs the lanes of an ingest as tasks of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # untyped in the package
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.common.errors import StreamsError
from penstock.pipeline.ingest.ingest import RunLanes
from penstock.pipeline.ingest.job import IngestJob
from penstock.pipeline.ingest.lane import LaneReport, LaneWriter
from penstock.pipeline.ingest.plan import Lane
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_session import spark_session

_FAILURE, _REFUSED = "failure", "refused"
_ROWS = "kind string, text string"
_ROWS_ARROW = pa.schema([("kind", pa.string()), ("text", pa.string())])
_CAUSES = (
    re.compile(r"^(?:[\w.]+\.)?(\w*Error: .+)$", re.MULTILINE),  # the last line of a Python traceback
    re.compile(r"(Python worker [^\n]+)"),
    re.compile(r"SparkException: ([^\n]+)"),
)
"""The cause in a report of Spark, the most exact one first."""


@contextmanager
def spark_lanes(place: SparkPlace | str | None, ingest_id: str) -> Iterator[RunLanes]:
    """Yields the function that runs lanes with Spark, at a place or master URL."""
    with spark_session(place, f"ingest {ingest_id}", connector=False) as spark:
        yield lambda job, lanes: run_with(spark, job, lanes)


def run_with(spark: SparkSession, job: IngestJob, lanes: Sequence[Lane]) -> list[LaneReport]:
    """Returns one report of all lanes, each of which is a task of Spark."""
    numbers = spark.range(0, len(lanes), 1, numPartitions=len(lanes))
    try:
        rows = numbers.mapInArrow(_LaneTask(job, tuple(lanes)).run, _ROWS).collect()
    except (PySparkException, Py4JError) as error:  # the latter for a worker that is lost
        raise StreamsError(
            f"Spark has lost a task of the ingest: {_cause(str(error))}. Nothing is written by half: run it again, it "
            "continues where this run ended"
        ) from error
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


def _cause(report: str) -> str:
    for pattern in _CAUSES:
        if found := pattern.findall(report):
            return str(found[-1])
    return report.partition("\n")[0]
