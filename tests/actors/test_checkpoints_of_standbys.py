"""Standbys, and tasks with stores that have no changelog, begin with checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.status import TaskState
from tests.actors.checkpointed import TASK_0, Threads, checkpoint, checkpointed, metric, records, stored, threads
from tests.actors.rig import LONG, STRING, Rig, count_of, follow, settle, states
from tests.actors.standbys import READS, lag, probed_at_once, stale_count, standby_of

__all__ = ["probed_at_once", "threads"]
KEYS = [f"k{number}" for number in range(10)]


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def rig(tmp_path: Path, threads: Threads, request: pytest.FixtureRequest) -> Rig:
    return checkpointed(tmp_path, processing_guarantee=request.param)


def test_a_new_standby_begins_with_a_checkpoint_and_follows_from_there(rig: Rig, tmp_path: Path) -> None:
    active = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, active)
    rig.write("in", *records("k0", at=2))
    rig.commit(active)
    other = rig.on_another_node(tmp_path / "node 2")
    standby = standby_of(other)
    follow(rig, standby)
    (status,) = lag(standby)
    assert (status.lag, status.restored) == (0, 1)
    assert [stale_count(standby, key) for key in ("k0", "k1")] == [2, 1]
    assert (tmp_path / "node 2" / "app" / "0_0" / "standby").exists()


def test_while_it_waits_for_a_checkpoint_a_standby_reports_no_lag(rig: Rig, tmp_path: Path, threads: Threads) -> None:
    active = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, active)
    threads.hold = True
    standby = standby_of(rig.on_another_node(tmp_path / "node 2"))
    follow(rig, standby)
    assert lag(standby) == []
    threads.work()
    follow(rig, standby)
    assert [each.lag for each in lag(standby)] == [0]


def test_a_standby_that_is_promoted_while_it_waits_looks_for_a_checkpoint_as_a_task(
    rig: Rig, tmp_path: Path, threads: Threads
) -> None:
    active = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, active)
    threads.hold = True
    other = rig.on_another_node(tmp_path / "node 2")
    standby = standby_of(other)
    rig.stop(active)
    other.assign(standby, 3, TASK_0)
    settle(standby)
    assert states(standby) == {TASK_0: TaskState.RESTORING}
    threads.work()
    settle(standby)
    assert [count_of(standby, key) for key in KEYS] == [1] * 10
    assert metric(standby, "checkpoint-restored-bytes") > 0
    assert not (tmp_path / "node 2" / "app" / "0_0" / "standby").exists()


def test_a_standby_that_closes_gives_its_download_up(rig: Rig, tmp_path: Path, threads: Threads) -> None:
    active = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, active)
    threads.hold = True
    standby = standby_of(rig.on_another_node(tmp_path / "node 2"))
    settle(standby)
    standby.assign(2, {}, {})
    settle(standby)
    threads.work()
    settle(standby)
    assert list((tmp_path / "node 2" / "app" / "0_0").glob("fetched-*")) == []
    threads.hold = False
    standby.assign(3, {}, READS)
    settle(standby)
    follow(rig, standby)
    assert stale_count(standby, "k0") == 1


def without_changelog() -> ps.Topology:
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    counts.count(ps.Materialized.as_("counts").with_logging_disabled()).to_stream().to(
        "out", ps.Produced.with_(STRING, LONG)
    )
    return builder.build()


def test_a_store_without_a_changelog_is_whole_if_nothing_came_after_its_checkpoint(
    tmp_path: Path, threads: Threads
) -> None:
    rig = checkpointed(tmp_path, topology=without_changelog())
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, loop)
    rig.stop(loop)
    begun = rig.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [1] * 10
    rig.stop(begun)


def test_a_store_without_a_changelog_begins_empty_if_it_would_miss_records(tmp_path: Path, threads: Threads) -> None:
    """As without checkpoints: rows that lack some records would be wrong without anything to show it."""
    rig = checkpointed(tmp_path, topology=without_changelog())
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, loop)
    rig.write("in", *records("k0"))
    settle(loop)
    rig.stop(loop)
    assert len(stored(rig)) == 1
    begun = rig.on_another_node(tmp_path / "node 2").running(epoch=2, slot=2)
    assert [count_of(begun, key) for key in KEYS] == [None] * 10


def test_local_rows_of_a_store_without_a_changelog_are_never_replaced(tmp_path: Path, threads: Threads) -> None:
    rig = checkpointed(tmp_path, topology=without_changelog())
    loop = rig.running()
    rig.write("in", *records(*KEYS))
    checkpoint(rig, loop)
    rig.write("in", *records("k0"))
    settle(loop)
    rig.stop(loop)
    again = rig.running(epoch=2)
    assert [count_of(again, key) for key in ("k0", "k1")] == [2, 1]
    assert metric(again, "checkpoint-restored-bytes") == 0
