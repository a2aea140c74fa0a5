"""Random numbers of tests: the same in each run with a seed, as CI has, and others without."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import conftest


@pytest.mark.parametrize(("seed", "same"), [("7", True), (None, False)])
def test_a_test_draws_the_same_numbers_in_each_run_if_there_is_a_seed(seed: str | None, same: bool) -> None:
    assert (drawn(seed, "test_a") == drawn(seed, "test_a")) is same
    assert drawn(seed, "test_a") != drawn(seed, "test_b")
    assert drawn("7", "test_a") != drawn("8", "test_a")


def drawn(seed: str | None, test: str) -> float:
    """Returns what a test draws first, whatever was drawn before."""
    random.seed()
    config = SimpleNamespace(getoption=lambda name, default: seed)
    conftest.pytest_runtest_setup(cast(Any, SimpleNamespace(nodeid=test, config=config)))
    return random.random()
