"""Standbys: stores of other actors' tasks that follow the changelogs, answer, and are promoted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.messages import QueryFailure, StandbyStatus, TaskState
from penstock.actors.standbys import standby_retries
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, Sources, TaskId, TopicPartition
from penstock.tasks.commit_coverage import covering
from penstock.testing.fake_clients import FakeConsumer
from tests.actors.rig import (
    APPLICATION,
    CHANGELOG,
    Rig,
    count_of,
    follow,
    key_query,
    query,
    settle,
    states,
)
from tests.actors.test_restoration import kill, log_counts

TASK = TaskId(0, 0)
RESUMES_WITHIN_MS = 5_000
READS: Sources = {TASK: frozenset({TopicPartition("in", 0)})}


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Rig:
    return Rig(tmp_path, processing_guarantee=request.param)


class AtOnce:
    """Probes the brokers in the thread of the loop, so that a step sees the answer."""

    def __init__(self, *_: object) -> None:
        """No threads are started."""

    def submit(self, ask: Callable[[], object]) -> Future[object]:
        asked: Future[object] = Future()
        try:
            asked.set_result(ask())
        except BrokerUnreachableError as error:
            asked.set_exception(error)
        return asked

    def shutdown(self, **_: object) -> None:
        """There are no threads."""


@pytest.fixture(autouse=True)
def probed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_retries, "ThreadPoolExecutor", AtOnce)


def standby_of(rig: Rig, slot: int = 2) -> StreamLoop:
    loop = rig.loop(slot)
    assigned = loop.assign(1, {}, READS)
    settle(loop)
    assert assigned.result(0) is None
    return loop


def lag(loop: StreamLoop) -> list[StandbyStatus]:
    asked = loop.status()
    if not asked.done():
        loop.step()
    return list(asked.result(0).standbys)


def stale_count(loop: StreamLoop, key: str) -> int | None:
    (found,) = query(loop, replace(key_query(key), stale=True))
    assert found.failure is None, found
    return found.rows[0].value if found.rows else None


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


def test_a_standby_of_much_is_filled_by_files_and_followed_then(rig: Rig) -> None:
    log_counts(rig)
    cover(rig)
    standby = standby_of(rig)
    assert stale_count(standby, "user-0") == 22_501
    log(rig, "user-0", 7)
    cover(rig)
    follow(rig, standby)
    assert stale_count(standby, "user-0") == 7


def log(rig: Rig, key: str, count: int) -> None:
    """Write to the changelog, as the active task would."""
    producer = rig.clients.producer()
    producer.send(CHANGELOG, key.encode(), count.to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)


def cover(rig: Rig) -> None:
    """Commit all that the changelog has by now, as the active task would; exactly once it is committed already."""
    if not rig.coordinator.exactly_once:
        end = rig.broker.log(TopicPartition(CHANGELOG, 0)).end
        offsets, _ = covering({TopicPartition("in", 0): CommittedOffset(0)}, {"counts": end}, ["counts"])
        rig.broker.group(APPLICATION).offsets.update(offsets)


def follows(loop: StreamLoop) -> bool:
    return loop._standbys._following.active


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


def rig_of_table(tmp_path: Path) -> Rig:
    builder = ps.StreamsBuilder()
    builder.table(
        "in",
        ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()),
        materialized=ps.Materialized.as_("counts"),
    ).to_stream().to("out")
    return Rig(tmp_path, builder.build({"topology.optimization": "all"}))


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


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: object) -> None:
        raise error

    return call
