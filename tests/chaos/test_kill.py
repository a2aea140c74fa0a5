"""The short kill tests, as ``make chaos`` runs them: each of nine or ten kinds of faults once, 300,000 records."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.testing.chaos.__main__ import name_of
from penstock.testing.chaos.schedule import ANYWHERE, OUTAGES, Kind, draw

SECONDS, SEED = 24, 1268
RECORDS = 300_000
# With the broker, exactly once takes three of them, and connections a proxy: `make chaos`.
WITHOUT_BROKER = (
    *(kind for kind in ANYWHERE if kind not in OUTAGES),
    Kind.DAMAGE_STORES,
    Kind.FILL_DISK,
    Kind.REBALANCE,
    Kind.POISON,
)
_END_S = 840.0  # the start alone may take 300 s, and rest 180 s; faulthandler_timeout would hide the output


@pytest.mark.parametrize("kinds", [ANYWHERE, WITHOUT_BROKER])
def test_the_short_run_has_every_kind_of_fault(kinds: tuple[Kind, ...]) -> None:
    assert {fault.kind for fault in draw(SEED, SECONDS, kinds)} == set(kinds)


@pytest.mark.long
def test_nothing_is_lost_whatever_is_killed_frozen_or_stopped() -> None:
    message = played("at_least_once", ANYWHERE)
    assert f"{len(ANYWHERE)} faults; back to rest" in message


@pytest.mark.submission
def test_exactly_once_each_record_counts_once_whatever_befalls_the_application() -> None:
    message = played("exactly_once_v2", WITHOUT_BROKER)
    assert "; 0 of them counted again (exactly_once_v2)" in message


def played(guarantee: str, kinds: Sequence[Kind]) -> str:
    # A process of its own: another Ray, and another broker, than the other tests have.
    command = [sys.executable, "-m", "penstock.testing.chaos", "--seconds", str(SECONDS), "--seed", str(SEED)]
    command += ["--guarantee", guarantee, "--records", str(RECORDS), "--only", ",".join(map(name_of, kinds))]
    run = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        message, _ = run.communicate(timeout=_END_S)
    finally:
        run.terminate()  # nothing if it has ended; else it stops its broker first
        run.wait()
    assert run.returncode == 0, message
    assert f"{RECORDS:,} records;" in message
    answered = re.search(r"look-ups: ([\d,]+) answered", message)
    assert answered is not None, message
    assert int(answered[1].replace(",", "")) > 20
    return message
