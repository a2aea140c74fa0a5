"""The short kill test, as ``make chaos`` runs it: every kind of fault once, 500,000 records."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing.chaos.schedule import CLASSIC, draw

SECONDS, SEED = 24, 1268
_END_S = 500.0  # rest alone may take 180 s


def test_the_short_run_has_every_kind_of_fault() -> None:
    assert {fault.kind for fault in draw(SEED, SECONDS)} == set(CLASSIC)


@pytest.mark.slow
def test_nothing_is_lost_whatever_is_killed_frozen_or_stopped() -> None:
    said = played("--guarantee", "at_least_once")
    assert f"{len(CLASSIC)} faults; back to rest" in said


@pytest.mark.slow
def test_exactly_once_each_record_counts_once_whatever_is_killed_or_frozen_but_the_broker() -> None:
    # With the broker it takes three nodes: `make chaos`.
    said = played("--guarantee", "exactly_once_v2", "--without-broker")
    assert "; 0 of them counted again (exactly_once_v2)" in said


def played(*options: str) -> str:
    # A process of its own: another Ray, and another broker, than the other tests have.
    command = [sys.executable, "-m", "penstock.testing.chaos", "--seconds", str(SECONDS), "--seed", str(SEED), *options]
    run = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = run.communicate(timeout=_END_S)
    finally:
        run.terminate()  # nothing if it has ended; else it stops its broker first
        run.wait()
    assert run.returncode == 0, said
    assert "500,000 records;" in said
    answered = re.search(r"look-ups: ([\d,]+) answered", said)
    assert answered is not None, said
    assert int(answered[1].replace(",", "")) > 20
    return said
