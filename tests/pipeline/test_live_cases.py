"""Parity cases of which Spark plays the history and the live application the rest: a sample of ``make test-live``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.live.backfilled import Way, play_backfilled
from tests.live.bunches import Case
from tests.live.play import excluded
from tests.live.shapes import sample, shapes_seen


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark", "ray_cluster")
def test_history_by_spark_and_the_rest_live_is_the_live_whole(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    bunch = sample(8, excluded, shapes_seen)
    outcome = play_backfilled(bunch, broker, topic_name("live"), tmp_path)
    assert outcome.differences == {case["name"]: [] for case in bunch.cases}
    assert outcome.records > 100


HANDFUL = {"aggregate", "foreign_key", "table_table", "ttl", "versioned"}


def handful_seen(case: Case) -> set[str]:
    return shapes_seen(case) & HANDFUL


@pytest.mark.submission
@pytest.mark.usefixtures("shared_spark", "ray_cluster")
def test_history_from_an_archive_handed_over_by_checkpoints_and_the_rest_live_is_the_live_whole(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, spark: SparkSession
) -> None:
    bunch, way = sample(6, excluded, handful_seen), Way(archive=True, checkpoints=True, partitions=1)
    outcome = play_backfilled(bunch, broker, topic_name("live"), tmp_path, way, spark=spark)
    assert outcome.differences == {case["name"]: [] for case in bunch.cases}
    assert len(bunch.cases) >= len(HANDFUL) - 1
