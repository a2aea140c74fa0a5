"""Golden cases split at a random point: what tasks make of a hand-over is what one run makes of all records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.live.backfilled import Way, excluded_from_backfill
from tests.live.bunches import Bunch
from tests.live.handed_over import play_handed_over
from tests.live.shapes import every_shape, sample, shapes_seen

SHAPES = every_shape()
FORMS = [Way(checkpoints=form, partitions=count) for form, count in ((True, 4), (False, 1), (True, 1), (False, 4))]


def test_a_case_of_every_shape_continues_from_checkpoints(tmp_path: Path) -> None:
    bunch = sample(6, excluded_from_backfill, shapes_seen)
    outcome = play_handed_over(bunch, Way(checkpoints=True, partitions=2), 1, tmp_path)
    assert outcome.differences == {case["name"]: [] for case in bunch.cases}


@pytest.mark.long
@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"idle"}))
def test_every_tenth_case_continues_from_either_form_of_hand_over(shape: str, tmp_path: Path) -> None:
    seed = random.randrange(1, 1000)
    print("seed", seed)
    for number, case in enumerate(SHAPES[shape][seed % 10 :: 10]):
        if excluded_from_backfill(case) is None:
            bunch, way = Bunch("one", case["config"], (case,), False), FORMS[(number + seed) % len(FORMS)]
            outcome = play_handed_over(bunch, way, seed, tmp_path / str(number))
            assert outcome.differences[case["name"]] == [], (way, case["name"])
