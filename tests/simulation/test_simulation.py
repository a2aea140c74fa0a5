"""The whole cluster, from seeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.simulation.play import Result, play, quiet

SEEDS = [0, 1, 2, 3, 5, 7]
"""Both guarantees, one cluster and two, every kind of fault."""


@pytest.fixture(autouse=True)
def without_log_lines() -> Iterator[None]:
    before = structlog.get_config()
    quiet()
    yield
    structlog.configure(**before)


def shown(result: Result) -> str:
    return "\n".join([f"seed {result.seed}: {result.violation}", *result.trace[-60:]])


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_results_are_those_of_one_task_host_without_faults(seed: int) -> None:
    result = play(seed)
    assert result.violation is None, shown(result)
    assert result.virtual_s > 60


def test_the_same_seed_is_the_same_run() -> None:
    first, second = play(2), play(2)
    assert first.trace == second.trace
    assert first.steps == second.steps
