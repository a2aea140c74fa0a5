"""The faults that a seed determines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.testing.chaos.schedule import ANYWHERE, LASTING, OUTAGES, draw

SEEDS = range(40)


def test_a_seed_means_the_same_faults_each_time_and_another_seed_others() -> None:
    assert draw(7, 120) == draw(7, 120)
    assert draw(7, 120) != draw(8, 120)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = draw(7, 60)
    assert draw(7, 300)[: len(short)] == short


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_begin_in_order_and_in_time_a_few_seconds_apart(seed: int) -> None:
    faults = draw(seed, 120)
    assert faults
    assert faults[-1].at_s < 120
    assert all(later.at_s - earlier.at_s > 0.4 for earlier, later in pairwise(faults))
    assert len(faults) >= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_each_kind_comes_once_before_one_comes_again(seed: int) -> None:
    kinds = [fault.kind for fault in draw(seed, 240)]
    for begin in range(0, len(kinds) - len(ANYWHERE), len(ANYWHERE)):
        assert set(kinds[begin : begin + len(ANYWHERE)]) == set(ANYWHERE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_broker_is_up_for_a_while_between_two_outages(seed: int) -> None:
    outages = [fault for fault in draw(seed, 240) if fault.kind in OUTAGES]
    assert len(outages) > 2
    assert all(later.at_s - earlier.ends_s > 9.8 for earlier, later in pairwise(outages))


@pytest.mark.parametrize("seed", SEEDS)
def test_only_lasting_faults_have_a_duration_and_it_is_at_most_16_seconds(seed: int) -> None:
    for fault in draw(seed, 240):
        assert fault.lasts_s <= 16
        assert (fault.lasts_s > 0) is (fault.kind in LASTING)


def test_faults_happen_while_others_last() -> None:
    faults = draw(7, 240)
    assert any(later.at_s < earlier.ends_s for earlier, later in pairwise(faults))
