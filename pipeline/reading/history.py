"""Kafka's history, read by Spark as data frames, in the order in which the live task would take the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from penstock.pipeline.offset_ranges import Ranges
from penstock.pipeline.rows import PROCESS, REPARTITION, RESTORE

COLUMNS = ("task", "phase", "topic", "source", "sequence", "key", "value", "timestamp", "headers")
"""The columns of ``INPUT_SCHEMA``."""
_FETCH_MAX_WAIT_MS = 10
"""All that is read is there already, so nothing is gained by waiting for more. And Spark asks for offsets on the
connection on which the broker holds back its next fetch, by default for half a second."""


@dataclass(frozen=True)
class KafkaReader:
    """The address of Kafka, and the security options of Spark's readers (``kafka_options.py``)."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    reads_committed: bool = False
    """True if the live application's consumers read committed records only; Spark's readers then do, too."""


def records_of(spark: SparkSession, kafka: KafkaReader, ranges: Ranges) -> DataFrame | None:
    """Returns the records of topics as rows of ``INPUT_SCHEMA``; None if the ranges are empty."""
    rows = _read(spark, kafka, ranges)
    return rows and _as_input(rows, PROCESS, sql.col("topic"), 0)


def state_of(spark: SparkSession, kafka: KafkaReader, store: str, ranges: Ranges, unfinished: bool) -> DataFrame | None:
    """Returns the rows of a changelog, or None; ``source`` is 1 if they are of an unfinished backfill."""
    rows = _read(spark, kafka, ranges)
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


def _read(spark: SparkSession, kafka: KafkaReader, ranges: Ranges) -> DataFrame | None:
    """Returns Kafka's records between given offsets, read by Spark's own connector; None if there are no offsets."""
    chosen = {partition: offsets for partition, offsets in ranges.items() if offsets}
    if not chosen:
        return None
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for partition, offsets in chosen.items():
        begins.setdefault(partition.topic, {})[str(partition.partition)] = offsets.begin
        ends.setdefault(partition.topic, {})[str(partition.partition)] = offsets.end
    return (
        spark.read.format("kafka")
        .options(**kafka.options)
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed" if kafka.reads_committed else "read_uncommitted")
        .option("kafka.fetch.max.wait.ms", str(_FETCH_MAX_WAIT_MS))
        .option("assign", json.dumps({topic: [int(number) for number in numbers] for topic, numbers in begins.items()}))
        .option("startingOffsets", json.dumps(begins))
        .option("endingOffsets", json.dumps(ends))
        .option("includeHeaders", "true")
        .load()
    )


def _as_input(rows: DataFrame, phase: int, topic: Column, source: int) -> DataFrame:
    return rows.select(
        sql.col("partition").alias("task"),
        sql.lit(phase).alias("phase"),
        topic.alias("topic"),
        sql.lit(source).alias("source"),
        sql.col("offset").alias("sequence"),
        "key",
        "value",
        sql.unix_millis("timestamp").alias("timestamp"),
        "headers",
    )
