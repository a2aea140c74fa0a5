"""Parity cases of every shape on four partitions, through a real Kafka and a real Ray, stopped in the middle and
restored elsewhere: a sample of ``make test-live``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live import own
from tests.live.bunches import Bunch, shape_of
from tests.live.play import excluded, play
from tests.live.shapes import of_shapes, operators_seen, sample


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_every_shape_does_live_what_it_does_in_the_driver(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    bunch = sample(8, excluded, operators_seen)
    assert set(map(shape_of, bunch.cases)) == {*of_shapes(), "deduplicate", "ttl"}
    outcome = play(bunch, broker, topic_name("live"), tmp_path)
    assert outcome.differences == {case["name"]: [] for case in bunch.cases}
    assert outcome.records > 500


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_open_windows_close_on_an_idle_topic_and_stay_closed_after_a_restart(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    cases = tuple(own.of_shapes()["idle"])
    bunch = Bunch("idle", cases[0]["config"], cases, True)
    outcome = play(bunch, broker, topic_name("idle"), tmp_path)
    assert outcome.differences == {case["name"]: [] for case in cases}
    assert outcome.records > 200
