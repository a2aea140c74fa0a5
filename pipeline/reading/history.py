"""Records as rows of tasks, in the order in which the live task would take them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from penstock.pipeline.offset_ranges import Ranges
from penstock.pipeline.reading.contracts import HistorySource
from penstock.pipeline.rows import PROCESS, REPARTITION, RESTORE

COLUMNS = ("task", "phase", "topic", "source", "sequence", "key", "value", "timestamp", "headers")
"""The columns of ``INPUT_SCHEMA``."""


def records_of(spark: SparkSession, history: HistorySource, ranges: Ranges) -> DataFrame | None:
    """Returns the records of topics as rows of ``INPUT_SCHEMA``; None if the ranges are empty."""
    rows = history.records(spark, ranges)
    return rows and _as_input(rows, PROCESS, sql.col("topic"), 0)


def state_of(
    spark: SparkSession, history: HistorySource, store: str, ranges: Ranges, unfinished: bool
) -> DataFrame | None:
    """Returns the rows of a changelog, or None; ``source`` is 1 if they are of an unfinished backfill."""
    rows = history.records(spark, ranges)
    return rows and _as_input(rows, RESTORE, sql.lit(store), int(unfinished))


def shuffled(results: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Returns the rows that a stage wrote to repartition topics, as input of the next.

    Several live tasks write a partition at once, and each keeps its own order. Of all the orders that this allows, the
    one that follows event time is used: the smallest running maximum first (see :func:`in_task_order`).
    """
    rows = results.where((sql.col("kind") == REPARTITION) & sql.col("topic").isin(list(topics)))
    return rows.select(
        sql.col("partition").alias("task"),
        sql.lit(PROCESS).alias("phase"),
        "topic",
        sql.col("task").alias("source"),
        "sequence",
        "key",
        "value",
        "timestamp",
        "headers",
    )


def in_task_order(spark: SparkSession, inputs: Sequence[DataFrame], tasks: int) -> DataFrame:
    """Returns all rows of a task in one Spark partition, as the live task would take them.

    A live task takes the record whose partition has the smallest head timestamp, and partitions keep their order: a
    late record follows its predecessor at once. That is the order of the running maximum of timestamps within each
    partition. If records of several topics have the same one, a live task takes turns, as far as a batch has them.

    The shuffle comes first, so that the running maximum and the sort need no other.
    """
    slots = sql.array(*map(sql.lit, _slots(spark, tasks)))
    rows = reduce(DataFrame.unionByName, inputs).withColumn("slot", sql.element_at(slots, sql.col("task") + 1))
    return (
        rows.repartition(tasks, "slot")
        .withColumn("time", _time("slot", "task", "phase", "topic", "source"))
        .sortWithinPartitions("task", "phase", "time", "topic", "source", "sequence")
        .select(*COLUMNS)
    )


def in_cycle_order(inputs: Sequence[DataFrame]) -> DataFrame:
    """Returns the rows of all tasks of a cycle in one Spark partition, ordered among tasks as :func:`in_task_order`."""
    rows = reduce(DataFrame.unionByName, inputs).repartition(1)
    return (
        rows.withColumn("time", _time("task", "phase", "topic", "source"))
        .sortWithinPartitions("phase", "time", "topic", "task", "source", "sequence")
        .select(*COLUMNS)
    )


def _time(*written_by: str) -> Column:
    """Returns the time at which a live task would take a row: the running maximum of timestamps within its partition.
    Rows to restore are ordered by offset alone, and those of an unfinished backfill come after all others."""
    written = Window.partitionBy(*written_by).orderBy("sequence")
    so_far = sql.max("timestamp").over(written.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return sql.when(sql.col("phase") == RESTORE, sql.col("source")).otherwise(so_far)


@cache
def _slots(spark: SparkSession, tasks: int) -> list[int]:
    """Returns a number per task that Spark's hash sends to a partition of its own; the task numbers would collide."""
    candidates = spark.range(tasks * 16 + 64).select(sql.col("id").cast("int").alias("number"))
    hashed = candidates.select("number", sql.pmod(sql.hash("number"), sql.lit(tasks)).alias("partition"))
    first = {row["partition"]: row["number"] for row in sorted(hashed.collect(), reverse=True)}
    return [first.get(task, task) for task in range(tasks)]


def _as_input(rows: DataFrame, phase: int, topic: Column, source: int) -> DataFrame:
    return rows.select(
        sql.col("partition").alias("task"),
        sql.lit(phase).alias("phase"),
        topic.alias("topic"),
        sql.lit(source).alias("source"),
        sql.col("offset").alias("sequence"),
        "key",
        "value",
        "timestamp",
        "headers",
    )
