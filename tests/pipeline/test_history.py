"""The order in which Spark hands rows to tasks."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.reading.history import in_cycle_order, in_task_order, shuffled
from penstock.pipeline.rows import INPUT_SCHEMA, OUTPUT_SCHEMA, REPARTITION, RESTORE, SINK
from tests.pipeline.rows import host, on_the_driver, out_of_order, process, restore
from tests.pipeline.topologies import priced_orders

Row = tuple[Any, ...]


def test_a_stream_joined_with_a_table_gives_on_spark_what_it_gives_on_the_driver(spark: SparkSession) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    topology, tasks = priced_orders(), 3
    orders = [row for task in range(tasks) for row in out_of_order(rng, "orders", task, 200, 0)]
    prices = [row for task in range(tasks) for row in out_of_order(rng, "prices", task, 100, 1)]
    frames = [
        spark.createDataFrame(rng.sample(rows, len(rows)), INPUT_SCHEMA).repartition(4) for rows in (orders, prices)
    ]
    results = in_task_order(spark, frames, tasks).mapInArrow(host(topology).run, OUTPUT_SCHEMA).collect()
    for task in range(tasks):
        sinks = sorted(
            (row for row in results if row["kind"] == SINK and row["task"] == task), key=lambda r: r["sequence"]
        )
        joined = [(bytes(row["key"]), bytes(row["value"]), row["timestamp"]) for row in sinks]
        assert joined == on_the_driver(topology, [row for row in orders + prices if row[0] == task], task)


def test_rows_of_a_shuffle_keep_each_writers_order_and_are_merged_by_event_time(spark: SparkSession) -> None:
    times = {0: [10, 50, 20, 60], 1: [5, 15, 55, 12]}
    rows: list[Row] = [
        (REPARTITION, writer, "shuffle", 0, place, b"%d" % writer, b"%d" % place, time, None)
        for writer, own in times.items()
        for place, time in enumerate(own)
    ]
    other: list[Row] = [
        (SINK, 0, "out", 0, 9, b"x", b"x", 1, None),
        (REPARTITION, 0, "other", 0, 9, b"x", b"x", 1, None),
    ]
    results = spark.createDataFrame(rows + other, OUTPUT_SCHEMA)
    ordered = in_task_order(spark, [shuffled(results, ["shuffle"])], 1).collect()
    assert [(int(row["key"]), int(row["value"])) for row in ordered] == [
        (1, 0), (0, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3),
    ]  # fmt: skip


def test_every_task_has_a_spark_partition_of_its_own(spark: SparkSession) -> None:
    rows = [row for task in range(7) for row in out_of_order(random.Random(0), "orders", task, 3, 0)]
    ordered = in_task_order(spark, [spark.createDataFrame(rows, INPUT_SCHEMA)], 7)
    parts = ordered.rdd.glom().collect()
    assert sorted(len({row["task"] for row in part}) for part in parts) == [1] * 7


def test_the_tasks_of_a_cycle_are_in_one_spark_partition_and_one_order_of_time(spark: SparkSession) -> None:
    times = {("left", 0): [10, 50, 20, 60], ("left", 1): [5, 15, 55, 12], ("right", 0): [11, 70]}
    records = [
        process(task, topic, place, topic, "v", time)
        for (topic, task), own in times.items()
        for place, time in enumerate(own)
    ]
    state = [restore(task, "s", offset, "k", b"v", 999 - offset) for task in (0, 1) for offset in range(3)]
    frames = [spark.createDataFrame(rows, INPUT_SCHEMA).repartition(4) for rows in (records[::-1], state[::-1])]
    (together,) = [part for part in in_cycle_order(frames).rdd.glom().collect() if part]
    assert [(row["task"], row["sequence"]) for row in together[:6]] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert all(row["phase"] == RESTORE for row in together[:6])
    assert [(row["topic"], row["task"], row["timestamp"]) for row in together[6:]] == [
        ("left", 1, 5), ("left", 0, 10), ("right", 0, 11), ("left", 1, 15), ("left", 0, 50), ("left", 0, 20),
        ("left", 1, 55), ("left", 1, 12), ("left", 0, 60), ("right", 0, 70),
    ]  # fmt: skip


def test_stores_are_restored_by_offset_before_the_first_record_with_rows_of_an_unfinished_backfill_last(
    spark: SparkSession,
) -> None:
    state = [restore(0, "s", offset, "k", b"v", timestamp) for offset, timestamp in ((0, 900), (1, 100), (2, 500))]
    unfinished = [restore(0, "s", offset, "k", b"v", 1, unfinished=1) for offset in (3, 4)]
    records = out_of_order(random.Random(0), "orders", 0, 5, 0)
    frames = [spark.createDataFrame(rows, INPUT_SCHEMA) for rows in (records, unfinished, state)]
    ordered = in_task_order(spark, frames, 1).collect()
    assert [row["sequence"] for row in ordered if row["phase"] == RESTORE] == [0, 1, 2, 3, 4]
    assert [row["phase"] for row in ordered] == sorted(row["phase"] for row in ordered)
