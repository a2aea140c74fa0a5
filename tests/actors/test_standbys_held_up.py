"""A standby that waits for a broker holds up neither the loop nor the other standbys of its actor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import Sources, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_clients import FakeAdmin, FakeConsumer
from tests.actors.rig import CHANGELOG, Rig, count_of, follow, settle
from tests.actors.standbys import RESUMES_WITHIN_MS, TASK, lag, raising, standby_of
from tests.actors.standbys import probed_at_once as probed_at_once

OTHER = TaskId(0, 1)
READS: Sources = {task: frozenset({TopicPartition("in", task.partition)}) for task in (TASK, OTHER)}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, partitions=2, processing_guarantee="exactly_once_v2")


def following_both(rig: Rig) -> StreamLoop:
    log(rig, TASK, 1)
    log(rig, OTHER, 1)
    loop = rig.loop(2)
    loop.assign(1, {}, READS)
    settle(loop)
    assert lags(loop) == {TASK: 0, OTHER: 0}
    return loop


def log(rig: Rig, task: TaskId, count: int, key: bytes = b"ada") -> None:
    """Write to the changelog, as the active task would."""
    producer = rig.clients.producer()
    producer.send(CHANGELOG, key, count.to_bytes(8, "big"), 1, None, task.partition)
    producer.flush(1)


def overtake(rig: Rig, *tasks: TaskId) -> None:
    """Have the changelogs delete a record before it is read."""
    for task in tasks:
        log(rig, task, 2)
        log(rig, task, 3)
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, task.partition): 2 for task in tasks})


def lags(loop: StreamLoop) -> dict[TaskId, int]:
    return {status.task_id: status.lag for status in lag(loop)}


def without_leader(monkeypatch: pytest.MonkeyPatch, task: TaskId) -> set[TopicPartition]:
    """Nobody answers for its changelog, until that is taken from the returned set."""
    gone = {TopicPartition(CHANGELOG, task.partition)}

    def refuse(call: Callable[..., Any]) -> Callable[..., Any]:
        def ask(client: Any, partitions: Any) -> Any:
            asked = set(partitions)
            if gone & asked:
                raise BrokerUnreachableError("no leader")
            return call(client, asked)

        return ask

    for client, name in (
        (FakeAdmin, "end_offsets"),
        (FakeConsumer, "fetch_beginning_offsets"),
        (FakeConsumer, "fetch_end_offsets"),
    ):
        monkeypatch.setattr(client, name, refuse(getattr(client, name)))
    return gone


def pass_time(rig: Rig, loop: StreamLoop) -> None:
    for _ in range(30):
        rig.clock.now_ms += 1000
        settle(loop)


@pytest.mark.parametrize("leaves", [False, True])
def test_the_others_follow_while_one_waits_to_begin_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    standby = following_both(rig)
    gone = without_leader(monkeypatch, TASK)
    overtake(rig, TASK)
    settle(standby)
    if leaves:
        standby.assign(2, {}, {OTHER: READS[OTHER]})
    log(rig, OTHER, 2)
    pass_time(rig, standby)
    assert lags(standby) == {OTHER: 0}, "it is not known what the one that waits lacks"
    gone.clear()
    rig.clock.now_ms += RESUMES_WITHIN_MS
    settle(standby)
    assert set(lags(standby).values()) == {0}


def test_one_begins_again_while_another_waits_to_do_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    standby = following_both(rig)
    without_leader(monkeypatch, TASK)
    overtake(rig, TASK, OTHER)
    pass_time(rig, standby)
    assert lags(standby) == {OTHER: 0}


def test_one_that_waits_to_begin_again_does_not_count_as_up_to_date(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    standby = following_both(rig)
    without_leader(monkeypatch, TASK)
    # A new topic of the same name is not behind the position, but has other records.
    rig.broker.delete_topic(CHANGELOG)
    rig.broker.create_topic(NewTopic(CHANGELOG, 2))
    pass_time(rig, standby)
    ages_ms = {task: it.directory.age_ms(rig.clock.wall_ms()) for task, it in standby._standbys.by_id.items()}
    assert (ages_ms[TASK] or 0) >= 30_000 > (ages_ms[OTHER] or 0)


def test_a_standby_that_is_promoted_while_it_waits_to_begin_again_keeps_nothing_of_what_was_deleted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = following_both(rig)
    gone = without_leader(monkeypatch, TASK)
    rig.broker.delete_topic(CHANGELOG)
    rig.broker.create_topic(NewTopic(CHANGELOG, 2))
    settle(standby)
    assert TASK not in lags(standby)
    gone.clear()
    # Its new changelog reaches beyond the offset that the store had.
    for _ in range(3):
        log(rig, TASK, 7, key=b"bob")
    standby.assign(2, {TASK: READS[TASK]}, {})
    settle(standby)
    assert (count_of(standby, "bob"), count_of(standby, "ada")) == (7, None)


@pytest.mark.parametrize("active", [False, True], ids=["standby", "task that is restored"])
@pytest.mark.parametrize("stops", [False, True], ids=["moves away", "its actor stops"])
def test_a_store_that_waits_to_begin_again_keeps_nothing_of_what_was_deleted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, active: bool, stops: bool
) -> None:
    log(rig, TASK, 1)
    rig.stop(standby_of(rig))
    log(rig, TASK, 2)
    loop = rig.loop(2)
    given: tuple[Sources, Sources] = ({TASK: READS[TASK]}, {}) if active else ({}, {TASK: READS[TASK]})
    with monkeypatch.context() as patch:
        # The restore has begun, and read nothing yet, when the changelog is created again and has no leader.
        patch.setattr(FakeConsumer, "poll", lambda *_: [])
        loop.assign(1, *given)
        for _ in range(5):
            loop.step()
    gone = without_leader(monkeypatch, TASK)
    rig.broker.delete_topic(CHANGELOG)
    rig.broker.create_topic(NewTopic(CHANGELOG, 2))
    pass_time(rig, loop)
    if stops:
        rig.stop(loop)
        loop = rig.loop(2)
    else:
        loop.assign(2, {}, {})
        settle(loop)
    gone.clear()
    for _ in range(3):  # the new changelog reaches beyond the offset of the store
        log(rig, TASK, 7, key=b"bob")
    loop.assign(3, {TASK: READS[TASK]}, {})
    settle(loop)
    assert (count_of(loop, "bob"), count_of(loop, "ada")) == (7, None)


def test_a_store_that_waits_to_begin_again_takes_no_records_from_the_middle(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in range(4):
        log(rig, TASK, count)
    standby = following_both(rig)
    gone = without_leader(monkeypatch, TASK)
    rig.broker.delete_topic(CHANGELOG)
    rig.broker.create_topic(NewTopic(CHANGELOG, 2))
    settle(standby)
    for number in range(9):
        log(rig, TASK, 7, key=b"bob" if number < 3 else b"eve")
    # As a client that takes the place of one that does not answer: it is assigned where that one was.
    replays = standby._standbys._following._replays
    changelog = TopicPartition(CHANGELOG, TASK.partition)
    assert changelog in replays.overtaken
    replays.consumer.seek(changelog, replays.consumer.position(changelog))
    settle(standby)
    gone.clear()
    standby.assign(2, {TASK: READS[TASK]}, {})
    settle(standby)
    assert [count_of(standby, key) for key in ("bob", "eve", "ada")] == [7, 7, None]


def test_a_restore_ends_if_the_changelog_that_was_created_again_is_shorter(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in range(4):
        log(rig, TASK, count)
    loop = rig.loop(2)
    with monkeypatch.context() as patch:
        patch.setattr(FakeConsumer, "poll", lambda *_: [])
        loop.assign(1, {TASK: READS[TASK]}, {})
        for _ in range(5):
            loop.step()
    rig.broker.delete_topic(CHANGELOG)
    rig.broker.create_topic(NewTopic(CHANGELOG, 2))
    log(rig, TASK, 7, key=b"bob")
    loop._restoration._replays.consumer.seek(TopicPartition(CHANGELOG, TASK.partition), 3)
    settle(loop)
    assert [count_of(loop, key) for key in ("bob", "ada")] == [7, None]


def test_the_lag_stays_known_while_a_leader_is_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no standby could be promoted then. An error of a leader makes librdkafka forget the end."""
    standby = following_both(rig)
    rig.clock.now_ms += 15_000
    settle(standby)
    monkeypatch.setattr(FakeConsumer, "end_offset", lambda *_: None)
    pass_time(rig, standby)
    assert lags(standby) == {TASK: 0, OTHER: 0}


def test_the_loop_tries_once_to_open_one_if_only_the_controller_does_not_answer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(rig, TASK, 1)
    rig.stop(standby_of(rig))
    log(rig, TASK, 2)
    attempts: list[object] = []
    beginnings = FakeConsumer.fetch_beginning_offsets

    def attempt(consumer: FakeConsumer, partitions: Any) -> Any:
        attempts.append(partitions)
        return beginnings(consumer, partitions)

    monkeypatch.setattr(FakeConsumer, "fetch_beginning_offsets", attempt)
    with monkeypatch.context() as patch:
        patch.setattr(FakeAdmin, "delete_retention_ms", raising(BrokerUnreachableError("no controller")))
        standby = rig.loop(2)
        standby.assign(1, {}, {TASK: READS[TASK]})
        pass_time(rig, standby)
        assert len(attempts) == 1, "each stops the active tasks for up to 10 s"
    rig.clock.now_ms += RESUMES_WITHIN_MS
    follow(rig, standby)
    assert lags(standby) == {TASK: 0}
