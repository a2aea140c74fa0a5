"""Spark plays the tasks of an archive: it spreads them, and repeats those that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from typing_extensions import override

from penstock.pipeline.archive.batches import Part, Tasks
from penstock.pipeline.archive.file_writer import WORK, WRITTEN, FileWriter
from penstock.pipeline.spark.causes import causes_named


@dataclass(frozen=True)
class SparkTasks(Tasks):
    """Tasks in a session of Spark."""

    spark: SparkSession

    @property
    @override
    def at_once(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    @override
    def play(self, writer: FileWriter, parts: Sequence[Part]) -> list[tuple[str, bytes]]:
        # A part is a slice: a shuffle would put several into one task, and none into others.
        frame = self.spark.createDataFrame(self.spark.sparkContext.parallelize(parts, len(parts)), WORK)
        with causes_named("archiving failed", "Run it again: it continues where it ended"):
            rows = frame.mapInArrow(writer, WRITTEN).collect()
        return [(row["topic"], bytes(row["file"])) for row in rows]
