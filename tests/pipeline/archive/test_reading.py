"""Spark reads an archive: exactly the records of the ranges, and never from a damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.common.ids import TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.archive.catalog import Archive
from penstock.pipeline.archive.reading import archived_records
from penstock.pipeline.offset_ranges import OffsetRange
from tests.pipeline.archive.making import begun, span, table, written

LINES = TopicPartition("lines", 0)


def test_spark_reads_the_records_of_a_range_and_refuses_a_damaged_file(spark: SparkSession, tmp_path: Path) -> None:
    location = ObjectLocation(str(tmp_path))
    objects = location.open()
    log = begun(objects)
    for begin, end, missing in ((0, 12_000, (5, 6)), (12_000, 12_010, (12_003,)), (12_010, 12_020, ())):
        log.commit("run-1", 2_000, [span(begin, end)], [written(objects, begin, end, missing)])
    archived = Archive.open(location).generation("lines")
    assert archived is not None
    wanted = OffsetRange(2, 12_015)
    files = {LINES: archived.files(0, wanted)}
    frame = archived_records(spark, location, files, {LINES: wanted})
    assert frame is not None
    assert frame.dtypes[5:] == [("timestamp", "bigint"), ("headers", "array<struct<key:string,value:binary>>")]
    found = sorted(frame.collect(), key=lambda row: row["offset"])
    offsets = [offset for offset in range(2, 12_015) if offset not in (5, 6, 12_003)]
    assert [row["offset"] for row in found] == offsets
    expected = table(offsets).to_pylist()
    assert [(row["key"], row["value"], row["timestamp"]) for row in found] == [
        (row["key"], row["value"], 1_000_000 + row["offset"]) for row in expected
    ]
    assert [row["headers"] and row["headers"][0]["value"] for row in found] == [
        row["headers"] and row["headers"][0]["value"] for row in expected
    ]

    damaged = tmp_path / files[LINES][1].name
    content = bytearray(damaged.read_bytes())
    content[50] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(PySparkException, match=r"00012000-00000000000000012010.parquet .* is damaged: its hash"):
        frame.collect()
    damaged.unlink()
    with pytest.raises(PySparkException, match=r"00012000-00000000000000012010.parquet of the archive .* is missing"):
        frame.collect()


def test_no_file_is_no_frame(spark: SparkSession, tmp_path: Path) -> None:
    assert archived_records(spark, ObjectLocation(str(tmp_path)), {LINES: []}, {LINES: OffsetRange(0, 9)}) is None
