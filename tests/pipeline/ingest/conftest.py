"""Ingests by the command line, on a real broker, with the Spark that all tests here share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.ingest import spark_lanes
from penstock.pipeline.ingest.ingest import RunLanes


@pytest.fixture
def lanes_of_shared_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the command use the session there is, which saves each test the start of another."""

    @contextmanager
    def lanes(master: str, ingest_id: str) -> Iterator[RunLanes]:
        yield lambda job, all_lanes: spark_lanes.run_with(spark, job, all_lanes)

    monkeypatch.setattr(spark_lanes, "spark_lanes", lanes)
