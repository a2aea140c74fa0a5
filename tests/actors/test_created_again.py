"""Topics that are deleted and created again while stores are restored from them, or follow them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.state.queries import KeyQuery
from penstock.testing.fake_clients import FakeConsumer
from tests.actors.rig import CHANGELOG, Rig, follow, key_query, query, settle, states
from tests.actors.standbys import TASK, lag, rig_of_table, stale_count, standby_of
from tests.actors.test_global_stores import GLOBAL, GlobalRig, joined, kill, look_up
from tests.actors.test_standbys_held_up import log


def create_again(rig: Rig | GlobalRig, topic: str, partitions: int = 1) -> None:
    rig.broker.delete_topic(topic)
    rig.broker.create_topic(NewTopic(topic, partitions))


@contextmanager
def without_leaders(monkeypatch: pytest.MonkeyPatch, topic: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name in ("fetch_beginning_offsets", "fetch_end_offsets"):
            call = getattr(FakeConsumer, name)

            def ask(consumer: FakeConsumer, partitions: Any, call: Any = call) -> Any:
                asked = list(partitions)
                if any(tp.topic == topic for tp in asked):
                    raise BrokerUnreachableError("no leader")
                return call(consumer, asked)

            patch.setattr(FakeConsumer, name, ask)
        yield


def begun_again_from_a_shorter_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, StreamLoop]:
    """Two of four records are restored, and the task is to read on behind the four, when the topic has only one."""
    rig = rig_of_table(tmp_path / "a")
    rig.write("in", *(("ada", str(number), 1) for number in range(4)))
    loop = rig.running(TASK)
    rig.commit(loop)
    rig.stop(loop)
    rig = rig.on_another_node(tmp_path / "b")
    loop = rig.loop(2)
    with monkeypatch.context() as patch:
        poll = FakeConsumer.poll
        patch.setattr(FakeConsumer, "poll", lambda consumer, most, wait_s: poll(consumer, 2, wait_s))
        rig.assign(loop, 2, TASK)
        while not loop._restoration.active:
            loop.step()
        replay = loop._restoration._replays.by_partition[TopicPartition("in", 0)]
        while replay.position < 2:
            loop.step()
        patch.setattr(FakeConsumer, "poll", lambda *_: [])
    create_again(rig, "in")
    rig.write("in", ("bob", "0", 1))
    while not loop._restoration.overtaken:
        loop.step()
    while loop._restoration.overtaken:
        loop.step()
    return rig, loop


def test_a_table_of_a_source_topic_lacks_nothing_in_front_of_where_its_task_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, loop = begun_again_from_a_shorter_topic(tmp_path, monkeypatch)
    rig.write("in", *((f"k{number}", str(number), 1) for number in range(1, 6)))
    settle(loop)
    rig.commit(loop)
    found = {key: query(loop, key_query(key))[0].rows for key in ("bob", "k1", "k2", "k3", "k4", "k5", "ada")}
    values = {key: rows[0].value for key, rows in found.items() if rows}
    assert values == {"bob": "0", "k1": "1", "k2": "2", "k3": "3", "k4": "4", "k5": "5"}


def test_the_task_of_such_a_table_runs_although_its_topic_stays_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, loop = begun_again_from_a_shorter_topic(tmp_path, monkeypatch)
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}


@pytest.mark.parametrize("end", [GlobalRig.stop, lambda _, loop: kill(loop)], ids=["stops", "is killed"])
def test_a_global_store_that_waits_to_be_filled_again_keeps_nothing_of_the_deleted_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("old", "one"))
    loop = rig.running()
    rig.commit(loop)
    create_again(rig, "users", 3)
    with without_leaders(monkeypatch, "users"):
        settle(loop)
        end(rig, loop)
    # The new topic reaches beyond the offset of the store.
    rig.users(("bob", "two"), ("bob", "three"), ("bob", "four"))
    assert found_by(restarted(rig)) == {"bob": "four", "ada": None, "old": None}


def test_a_global_store_that_waits_to_be_filled_again_takes_no_records_from_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("old", "one"))
    loop = rig.running()
    rig.commit(loop)
    create_again(rig, "users", 3)
    with without_leaders(monkeypatch, "users"):
        settle(loop)
        rig.users(("bob", "two"), ("old", "three"), ("old", "four"))
        # A client that was replaced reads on at the lost position.
        assert loop._globals._opened is not None
        consumer = loop._globals._opened.consumer
        lost = TopicPartition("users", 0)
        consumer.seek(lost, consumer.position(lost))
        for _ in range(3):  # each assignment ends the wait for a round
            rig.assign(loop, 1, TASK)
            rig.commit(loop)
        rig.stop(loop)
    assert found_by(restarted(rig)) == {"bob": "two", "ada": None, "old": "four"}


@pytest.mark.parametrize("moment", ["while no broker answers", "in the same round"])
def test_no_task_and_no_query_looks_into_a_global_store_that_is_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("old", "one"))
    loop = rig.running()
    rig.commit(loop)
    create_again(rig, "users", 3)
    rig.users(("ada", "two"))
    rig.asked("ada")
    if moment == "while no broker answers":
        with without_leaders(monkeypatch, "users"):
            settle(loop)
            rig.assign(loop, 2, TASK)  # ends the wait for a round
            rig.asked("ada")
            settle(loop)
            (answer,) = query(loop, StoreQuery(GLOBAL, "users", KeyQuery(b"ada")))
            assert answer.failure is QueryFailure.NOT_ACTIVE
    settle(loop)
    assert set(rig.results()) == {"ada=two"}


def restarted(rig: GlobalRig) -> StreamLoop:
    loop = rig.loop(1)
    rig.assign(loop, 2, TASK)
    settle(loop)
    return loop


def found_by(loop: StreamLoop) -> dict[str, Any]:
    return {key: look_up(loop, key) for key in ("bob", "ada", "old")}


def test_a_standby_that_begins_again_follows_up_to_the_commits_of_the_new_changelog(tmp_path: Path) -> None:
    rig = Rig(tmp_path, processing_guarantee="at_least_once")
    active = rig.running(TASK)
    for number in range(12):
        rig.write("in", ("ada", str(number), 1))
        settle(active)
        rig.commit(active)
    standby = standby_of(rig)
    follow(rig, standby)
    rig.write("in", ("ada", "one more", 1))  # so that the standby reads, and notices the loss of its position
    settle(active)
    rig.commit(active)
    rig.stop(active)
    create_again(rig, CHANGELOG)
    follow(rig, standby)
    active = rig.running(TASK, epoch=2)
    rig.write("in", ("bob", "x", 1), ("eve", "x", 1))
    settle(active)
    rig.commit(active)
    log(rig, TASK, 99, key=b"uncommitted")
    follow(rig, standby)
    assert [stale_count(standby, key) for key in ("bob", "eve", "ada", "uncommitted")] == [1, 1, None, None]
    assert [it.lag for it in lag(standby)] == [0]
