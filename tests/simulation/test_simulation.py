"""The whole cluster, from seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.simulation.checkpoint_mistakes import BESIDE_DELETIONS, CHECKPOINTED
from tests.simulation.faults import FAULTS
from tests.simulation.mistakes import BESIDE_A_COMMIT, MISTAKES
from tests.simulation.play import play, quiet
from tests.simulation.setting import ALL_FROM_THE_SEED, Choice, setting_of

ROOT = Path(__file__).parents[2]
SHORT = ["kill_an_actor", "kill_an_actor_and_lose_its_disk", "restart_a_coordinator", "rebalance", "resize"]
"""Faults after which a run is soon at rest; `make simulate` plays all."""
EXACTLY_ONCE = (("processing.guarantee", "exactly_once_v2"),)
FOUND_FAST = {
    "forget_without_a_fence": Choice(config=EXACTLY_ONCE, faults=("cut_an_actor_from_ray", "resize")),
    "go_on_after_an_abort": Choice(config=EXACTLY_ONCE, faults=("abort_transactions", "rebalance")),
    "go_back_while_a_commit_is_under_way": BESIDE_A_COMMIT,
    "delete_files_of_uploads_under_way": BESIDE_DELETIONS,
}
"""Mistakes with the runs that show them; `make simulate PLANTED=1` finds these and the others among all faults."""
_SLOW = {"delete_files_of_uploads_under_way", "forget_without_a_fence"}
"""They take some tens of seeds. The second is also found by the coordinator alone (tests/cluster)."""


def _marks(mistake: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long] if mistake in _SLOW else []


@pytest.fixture(autouse=True)
def without_log_lines() -> Iterator[None]:
    before = structlog.get_config()
    quiet()
    yield
    structlog.configure(**before)


def test_results_are_those_of_one_task_host_without_faults() -> None:
    """Plays in a process whose sets have one order, so that the seeds are the same runs each time."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "0", "--seeds", "6", "--seconds", "1000"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    played = subprocess.run(
        [*command, "--processes", "1", "--only", ",".join(SHORT)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout + played.stderr
    assert "6 seeds" in played.stdout


@pytest.mark.parametrize("seed", [4, 10])
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    disks_are_real = setting_of(seed, ALL_FROM_THE_SEED, FAULTS).on_rocksdb
    assert not disks_are_real, "RocksDB compacts in threads of its own, so that the files of a checkpoint may differ"
    first, second = play(seed), play(seed)
    assert first.trace == second.trace
    assert (first.steps, first.virtual_s) == (second.steps, second.virtual_s)


def test_tasks_that_lose_their_disks_begin_with_checkpoints() -> None:
    often = ("state.checkpoint.interval.ms", 1000)
    choice = Choice(config=(CHECKPOINTED, often), faults=("kill_an_actor_and_lose_its_disk",))
    played = [play(seed, choice) for seed in range(8)]
    assert [result.violation for result in played] == [None] * 8
    assert any("files of checkpoints were downloaded" in line for result in played for line in result.trace)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_bad_records_have_their_letters_whatever_is_killed(guarantee: str) -> None:
    choice = Choice(
        config=(("processing.guarantee", guarantee),),
        blocks=("lettered", "aggregate"),
        faults=("kill_an_actor", "abort_transactions", "rebalance"),
    )
    played = [play(seed, choice) for seed in range(3)]
    assert [result.violation for result in played] == [None] * 3


@pytest.mark.parametrize("mistake", [pytest.param(each, marks=_marks(each)) for each in FOUND_FAST])
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MISTAKES[mistake].plant(monkeypatch.setattr)
    assert any(play(seed, FOUND_FAST[mistake]).violation for seed in range(60)), "not found by 60 seeds"
