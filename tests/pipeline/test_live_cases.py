"""Parity cases of which Spark plays the history and the live application the rest: a sample of ``make test-live``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.backfilled import play_backfilled
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
