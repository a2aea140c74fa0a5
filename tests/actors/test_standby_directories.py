"""The directories of standbys: one for each on a node, and the next task that opens takes the most advanced."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.status import TaskState
from tests.actors.rig import Rig, count_of, key_query, query, settle, states
from tests.actors.standbys import READS, TASK, log, standby_of
from tests.actors.standbys import probed_at_once as probed_at_once
from tests.actors.standbys import rig as rig
from tests.actors.test_restoration import kill


def test_active_task_and_standby_of_one_node_have_a_directory_each(rig: Rig) -> None:
    active, standby = rig.running(TASK), standby_of(rig)
    third = standby_of(rig, slot=3)
    places = [
        active._tasks[TASK].directory.path.name,
        *(it._standbys.by_id[TASK].directory.path.name for it in (standby, third)),
    ]
    assert places == ["0_0", "0_0-2", "0_0-3"]


def test_the_next_open_of_the_task_takes_the_most_advanced_stores(rig: Rig) -> None:
    active, standby = rig.running(TASK), standby_of(rig)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    kill(active)
    standby.assign(2, READS)
    settle(standby)
    rig.write("in", ("ada", "x", 2))
    settle(standby)
    rig.stop(standby)
    third = rig.loop(3)
    third.assign(3, READS)
    settle(third)
    assert third._tasks[TASK].directory.path.name == "0_0-2"
    assert count_of(third, "ada") == 2


def test_a_task_waits_for_the_stores_of_another_active_task_but_not_for_a_standbys(rig: Rig) -> None:
    first = rig.running(TASK)
    second = rig.loop(2)
    second.assign(1, READS)
    settle(second)
    assert states(second) == {}
    kill(first)
    rig.clock.now_ms += 1000
    settle(second)
    assert states(second) == {TASK: TaskState.RUNNING}
    standby = standby_of(rig, slot=3)
    rig.stop(second)
    beside = standby_of(rig, slot=4)
    assert beside._standbys.by_id[TASK].directory.path.name == "0_0"
    fifth = rig.loop(5)
    fifth.assign(3, READS)
    settle(fifth)
    assert fifth._tasks[TASK].directory.path.name == "0_0-3"
    assert standby._standbys.by_id[TASK].directory.path.name == "0_0-2"


def test_a_standby_that_is_never_quite_at_the_end_is_not_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    standby = standby_of(rig)
    consumer = standby._standbys._following._replays.consumer
    end_offset = consumer.end_offset
    monkeypatch.setattr(consumer, "end_offset", lambda tp: (end_offset(tp) or 0) + 1)  # one is on its way
    directory = standby._standbys.by_id[TASK].directory
    for count in range(48):
        rig.clock.now_ms += 3_600_000
        log(rig, "ada", count)
        log(rig, "ada", count)
        settle(standby)
    age_ms = directory.age_ms(rig.clock.now_ms)
    assert age_ms is not None
    assert age_ms <= 2 * 3_600_000


def test_a_store_without_changelog_is_found_again_beside_the_standbys_of_the_others(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).group_by_key()
    grouped.count(ps.Materialized.as_("counts"))
    grouped.count(ps.Materialized.as_("unlogged").with_logging_disabled())
    rig = Rig(tmp_path, builder.build())
    active, standby = rig.running(TASK), standby_of(rig)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    settle(standby)
    rig.stop(active)
    rig.stop(standby)
    first = standby_of(rig)
    assert first._standbys.by_id[TASK].directory.path.name == "0_0-2"
    again = rig.running(TASK)
    assert count_of(again, "ada") == 1
    (unlogged,) = query(again, key_query("ada", store="unlogged"))
    assert [row.value for row in unlogged.rows] == [1]
