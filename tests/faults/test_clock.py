"""Row 29: the clock of an actor's machine is set, to and fro. On a broker in memory, with a clock of the test's own."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as ps
from tests.actors.rig import LONG, STRING, Rig, settle

pytestmark = pytest.mark.cheap
HOUR_MS = 3_600_000
RECORDS = 300


def windows() -> ps.Topology:
    """Counts of 10 s by event time, each forwarded when its window closes."""
    builder = ps.StreamsBuilder()
    (
        builder.stream("in", ps.Consumed.with_(STRING, STRING))
        .group_by_key()
        .windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(seconds=10), timedelta(seconds=2)))
        .count(ps.Materialized.as_("counts"))
        .suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded().with_logging_disabled()))
        .to_stream(lambda key, _: key.key)
        .to("out", ps.Produced.with_(STRING, LONG))
    )
    return builder.build()


def played(folder: Path, guarantee: str, jumps_ms: random.Random | None) -> list[tuple[str, int]]:
    rig = Rig(folder, windows(), processing_guarantee=guarantee)
    loop = rig.running()
    for number in range(RECORDS):
        rig.write("in", (f"k{number % 7}", "x", number * 250))
        rig.clock.now_ms += 100 if jumps_ms is None else jumps_ms.randint(-HOUR_MS, HOUR_MS)
        settle(loop)
    rig.clock.now_ms += 2 * HOUR_MS * RECORDS  # whatever it was: a commit is due
    settle(loop)
    found = rig.counts()
    rig.stop(loop)
    return found


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("seed", range(3))
def test_row_29_results_by_event_time_do_not_depend_on_the_wall_clock(
    tmp_path: Path, guarantee: str, seed: int
) -> None:
    steady = played(tmp_path / "steady", guarantee, None)
    assert len(steady) > 40
    assert played(tmp_path / "set", guarantee, random.Random(seed)) == steady
