"""Standbys: stores of other actors' tasks that follow the changelogs, answer, and are promoted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.actors.store_queries import QueryFailure
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TaskId, TopicPartition
from penstock.testing.fake_clients import FakeConsumer
from tests.actors.rig import CHANGELOG, Rig, count_of, follow, key_query, query, settle, states
from tests.actors.standbys import (
    READS,
    RESUMES_WITHIN_MS,
    TASK,
    cover,
    follows,
    lag,
    log,
    raising,
    stale_count,
    standby_of,
)
from tests.actors.standbys import probed_at_once as probed_at_once
from tests.actors.standbys import rig as rig
from tests.actors.test_restoration import kill, log_counts


def test_a_standby_follows_what_the_active_task_commits(rig: Rig) -> None:
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1), ("ada", "x", 2))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    assert stale_count(standby, "ada") == 2
    rig.write("in", ("ada", "x", 3), ("bob", "x", 4))
    settle(active)
    rig.commit(active)
    follow(rig, standby)
    assert (stale_count(standby, "ada"), stale_count(standby, "bob")) == (3, 1)
    (status,) = lag(standby)
    assert (status.task_id, status.lag, status.restored) == (TASK, 0, 3)


def test_a_standby_processes_nothing_and_commits_nothing(rig: Rig) -> None:
    rig.write("in", ("ada", "x", 1))
    standby = standby_of(rig)
    rig.commit(standby)
    assert states(standby) == {}
    assert rig.counts() == []
    assert rig.committed() is None


def test_only_a_query_that_accepts_stale_answers_is_answered_by_a_standby(rig: Rig) -> None:
    standby = standby_of(rig)
    (refused,) = query(standby, key_query("ada"))
    assert refused.failure is QueryFailure.NOT_PRESENT
    (answered,) = query(standby, replace(key_query("ada"), stale=True))
    assert (answered.failure, answered.rows) == (None, ())


def test_a_standby_that_is_promoted_continues_with_what_it_has(rig: Rig) -> None:
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1), ("ada", "x", 2))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    kill(active)
    rig.write("in", ("ada", "x", 3))
    before = standby._standbys.by_id[TASK].directory.path
    assigned = standby.assign(2, READS)
    settle(standby)
    assert assigned.done()
    assert standby._tasks[TASK].directory.path == before
    assert count_of(standby, "ada") == 3
    rig.commit(standby)
    assert rig.counts()[-1] == ("ada", 3)
    assert rig.committed() == 3
    assert lag(standby) == []


def test_uncommitted_changelog_records_do_not_reach_a_standby(tmp_path: Path) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    rig.write("in", ("ada", "x", 2))
    settle(active)
    for hosted in active._tasks.values():  # to the changelog, in a transaction that stays open
        list(hosted.take_snapshot())
        list(hosted.task.flush_snapshot())
    settle(standby)
    assert stale_count(standby, "ada") == 1


def test_an_active_task_becomes_a_standby_and_comes_back(rig: Rig) -> None:
    first, second = rig.running(TASK), standby_of(rig)
    rig.write("in", ("ada", "x", 1))
    settle(first)
    first.assign(2, {}, READS)
    settle(first)
    second.assign(2, READS)
    settle(second)
    rig.write("in", ("ada", "x", 2))
    settle(second)
    rig.commit(second)
    follow(rig, first)
    assert stale_count(first, "ada") == 2
    second.assign(3, {}, READS)
    settle(second)
    first.assign(3, READS)
    settle(first)
    rig.write("in", ("ada", "x", 3))
    settle(first)
    assert count_of(first, "ada") == 3
    assert rig.committed() == 2


def test_a_standby_of_much_is_filled_by_files_and_followed_then(rig: Rig) -> None:
    log_counts(rig)
    cover(rig)
    standby = standby_of(rig)
    assert stale_count(standby, "user-0") == 22_501
    log(rig, "user-0", 7)
    cover(rig)
    follow(rig, standby)
    assert stale_count(standby, "user-0") == 7


def test_records_written_while_a_standby_starts_are_not_left_out(rig: Rig) -> None:
    log(rig, "ada", 1)
    cover(rig)
    standby = rig.loop(2)
    standby.assign(1, {}, READS)
    while not follows(standby):
        standby.step()
    log(rig, "bob", 2)  # behind the end that was there when it began, and fetched together with what is in front
    cover(rig)
    follow(rig, standby)
    log(rig, "cem", 3)
    cover(rig)
    follow(rig, standby)
    assert [stale_count(standby, key) for key in ("ada", "bob", "cem")] == [1, 2, 3]


def test_the_lag_of_a_standby_is_unknown_before_its_changelogs_answer(rig: Rig) -> None:
    log(rig, "ada", 1)
    cover(rig)
    rig.broker.down = True
    standby = rig.loop(2)
    standby.assign(1, {}, READS)
    settle(standby)
    assert lag(standby) == []
    rig.broker.down = False
    rig.clock.now_ms += RESUMES_WITHIN_MS
    follow(rig, standby)
    assert [status.lag for status in lag(standby)] == [0]
    assert stale_count(standby, "ada") == 1


def test_no_active_task_suffers_from_a_standby_that_cannot_be_opened(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    active, other = rig.running(TASK), TaskId(0, 1)
    rig.broker.down = True
    assigned = active.assign(2, READS, {other: frozenset({TopicPartition("in", 1)})})
    for _ in range(300):
        settle(active)
        rig.clock.now_ms += 1000
    assert assigned.done()
    assert not active.finished.done()
    rig.broker.down = False
    rig.clock.now_ms += RESUMES_WITHIN_MS
    rig.write("in", ("ada", "x", 1), partition=0)
    settle(active)
    assert count_of(active, "ada") == 1
    follow(rig, active)
    assert [status.task_id for status in lag(active)] == [other]


def test_a_standby_whose_changelog_deletes_faster_than_it_reads_begins_again(rig: Rig) -> None:
    log(rig, "ada", 1)
    cover(rig)
    standby = standby_of(rig)
    log(rig, "ada", 2)
    log(rig, "bob", 3)
    cover(rig)
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): 2})
    follow(rig, standby)
    assert (stale_count(standby, "ada"), stale_count(standby, "bob")) == (None, 3)
    log(rig, "ada", 4)
    cover(rig)
    follow(rig, standby)
    assert stale_count(standby, "ada") == 4


def test_no_active_task_waits_for_a_standby_that_must_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, partitions=2, processing_guarantee="exactly_once_v2")
    other = TaskId(0, 1)
    loop = rig.loop()
    loop.assign(1, {other: frozenset({TopicPartition("in", 1)})}, READS)
    settle(loop)
    log(rig, "ada", 1)
    log(rig, "bob", 3)
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): 1})
    nobody = BrokerUnreachableError("nobody answers")
    with monkeypatch.context() as patch:
        patch.setattr(FakeConsumer, "fetch_beginning_offsets", raising(nobody))
        settle(loop)
        assert loop._standbys._following.overtaken
        for count in range(30):
            rig.write("in", ("eve", "x", count), partition=1)
            rig.clock.now_ms += 10_000  # longer than an actor waits for its own tasks, in all
            settle(loop)
        assert not loop.finished.done()
        asked = replace(key_query("eve"), task_id=other)
        assert query(loop, asked)[0].rows[0].value == 30, "records go on"
    rig.clock.now_ms += RESUMES_WITHIN_MS
    settle(loop)
    assert (stale_count(loop, "ada"), stale_count(loop, "bob")) == (None, 3)
