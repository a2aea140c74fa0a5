"""Standbys of tables whose changelog is their source topic: they follow it as far as it is processed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.testing.fake_clients import FakeConsumer
from tests.actors.rig import Rig, key_query, query, settle
from tests.actors.standbys import READS, TASK, follows, lag, rig_of_table, standby_of
from tests.actors.standbys import probed_at_once as probed_at_once


def test_a_standby_of_a_source_topic_lacks_what_is_processed_from_the_beginning(tmp_path: Path) -> None:
    rig = rig_of_table(tmp_path)
    rig.write("in", *(("ada", str(number), number) for number in range(100)))
    active = rig.running(TASK)
    rig.commit(active)
    standby = rig.loop(2)
    standby.assign(1, {}, READS)
    while not follows(standby):
        standby.step()
    assert [status.lag for status in lag(standby)] == [100]


def test_a_table_of_a_source_topic_is_followed_as_far_as_it_is_processed(tmp_path: Path) -> None:
    rig = rig_of_table(tmp_path)
    rig.write("in", ("ada", "old", 1))
    active = rig.running(TASK)
    rig.commit(active)
    rig.write("in", ("ada", "new", 2))
    standby = standby_of(rig)
    until_it_has(rig, standby, "ada", "old")
    settle(active)
    rig.commit(active)
    until_it_has(rig, standby, "ada", "new")


def until_it_has(rig: Rig, loop: StreamLoop, key: str, value: str) -> None:
    """The committed offsets are asked for beside the loop, in a thread."""
    for _ in range(200):
        asked = loop._standbys._asking
        if asked is not None:
            asked.exception(timeout=10)
        settle(loop)
        (found,) = query(loop, replace(key_query(key), stale=True))
        if found.rows and found.rows[0].value == value:
            return
        rig.clock.now_ms += 1000
    raise AssertionError(f"{key} never became {value}: {found}; threads: {threading.enumerate()}")


def test_a_source_topic_that_is_followed_is_paused_once_and_not_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka throws away what it has fetched, each time."""
    rig = rig_of_table(tmp_path)
    rig.write("in", ("ada", "old", 1))
    active = rig.running(TASK)
    rig.commit(active)
    standby = standby_of(rig)
    until_it_has(rig, standby, "ada", "old")
    paused: list[object] = []
    monkeypatch.setattr(FakeConsumer, "pause", lambda _, partitions: paused.append(partitions))
    for _ in range(20):
        standby.step()
    assert paused == []
    rig.write("in", ("ada", "new", 2))
    settle(active)
    rig.commit(active)
    until_it_has(rig, standby, "ada", "new")
    settle(standby)
    assert len(paused) == 1, "it goes on when there is more, and stops again"
