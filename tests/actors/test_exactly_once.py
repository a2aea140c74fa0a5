"""``exactly_once_v2``: a reader of committed records sees each record's effect once, despite faults of the actor."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError
from penstock.tasks.state_manager import StateManager
from penstock.testing.fake_producers import FakeTransactionalProducer
from tests.actors.exactly_once import DAY_MS, SHAPES, TASK, application
from tests.actors.rig import CHANGELOG, count_of, settle, states


def test_nothing_is_seen_before_the_commit_and_all_of_it_then(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    assert count_of(loop, "a") == 1
    assert count_of(loop, "a", committed=True) is None
    assert rig.counts() == rig.counts(CHANGELOG) == []
    assert rig.committed() is None
    assert len(rig.broker.uncommitted_records("out")) == 2
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("b", 2)]
    assert rig.counts(CHANGELOG) == [("a", 1), ("b", 1)]
    assert rig.committed() == 2
    assert count_of(loop, "a", committed=True) == 1


def test_an_actor_asks_the_coordinator_before_it_reads_where_to_continue_and_when_it_goes_back(tmp_path: Path) -> None:
    rig = application(tmp_path)
    rig.coordinator.hold()
    loop = rig.loop()
    rig.assign(loop, 1, TASK)
    settle(loop)
    assert states(loop) == {TASK: TaskState.CREATED}
    rig.coordinator.release()
    settle(loop)
    for _ in range(3):
        rig.write("in", ("a", "x", 1))
        rig.commit(loop)
    rig.assign(loop, 2, TASK)
    settle(loop)
    assert [request.epoch for request in rig.coordinator.requests] == [1]
    rig.coordinator.join()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert [request.epoch for request in rig.coordinator.requests] == [1, 2]
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4), ("a", 6), ("a", 8)]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_commit_by_a_member_that_was_replaced_goes_back_and_is_repeated(tmp_path: Path, shape: str) -> None:
    rig = application(tmp_path, shape)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.coordinator.join()  # restarted: its earlier answers to the actor no longer hold
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]
    assert rig.counts(CHANGELOG) == [("a", 1), ("a", 2)]
    assert len(rig.broker.uncommitted_records("out")) == 3, "the second was written twice, once in vain"
    assert count_of(loop, "a") == 2
    status = loop.status()
    settle(loop)
    assert status.result().aborted_transactions == 1


def test_going_back_wipes_no_state_and_restores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = application(tmp_path, "in memory")
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rows = loop._tasks[TASK].state_manager.store("counts").context.committed
    monkeypatch.setattr(StateManager, "restore", lambda *_: pytest.fail("something is restored"))
    rig.coordinator.join()
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert loop._tasks[TASK].state_manager.store("counts").context.committed is rows
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


@pytest.mark.parametrize("restarted", [False, True])
def test_stores_of_a_task_that_had_nothing_to_do_for_days_are_kept(tmp_path: Path, restarted: bool) -> None:
    """A marker follows the last record of each changelog: that is no deletion they may have missed."""
    rig = application(tmp_path)
    rig.broker.delete_topic(CHANGELOG)
    rig.clients.admin().create_topics([NewTopic(CHANGELOG, 1, config={"cleanup.policy": "compact"})])
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.broker.delete_records(ps.TopicPartition(CHANGELOG, 0), 1)  # a store that is restored has nothing
    rig.clock.now_ms += 2 * DAY_MS
    settle(loop)
    if restarted:
        rig.stop(loop)
        loop = rig.running()
    else:
        rig.coordinator.join()
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


def test_a_transaction_whose_end_nobody_heard_of_counts_once(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.broker.loses_answers = True
    rig.clock.now_ms += 1001
    loop.step()
    settle(loop)
    rig.broker.loses_answers = False
    assert rig.counts() == [("a", 2)], "Kafka had it"
    assert count_of(loop, "a", committed=True) == 1, "restored from the changelog"
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


def test_a_transaction_that_the_broker_has_given_up_comes_again(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.expire_transactions()
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


def test_a_refused_commit_drops_all_tasks_because_their_records_are_in_one_transaction(tmp_path: Path) -> None:
    rig = application(tmp_path, partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), partition=0)
    settle(loop)
    rig.coordinator.join()
    rig.coordinator.refusal = "another has partition 0"
    rig.commit(loop)
    assert states(loop) == {}
    rig.coordinator.refusal = ""
    rig.assign(loop, 2, TaskId(0, 0), TaskId(0, 1))
    settle(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


def test_a_transaction_that_cannot_be_begun_is_aborted_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path)
    begin, failing = FakeTransactionalProducer.begin_transaction, [True, False, True, True]

    def begin_transaction(self: FakeTransactionalProducer) -> None:
        if failing and failing.pop(0):
            raise TransactionAbortedError("fenced", producer_is_spent=True)
        begin(self)

    monkeypatch.setattr(FakeTransactionalProducer, "begin_transaction", begin_transaction)
    loop = rig.running()
    for number in range(1, 4):
        rig.write("in", ("a", "x", number))
        rig.commit(loop)
        rig.clock.now_ms += 10_000
        settle(loop)
    assert not failing
    assert rig.counts() == [("a", 2), ("a", 4), ("a", 6)]
