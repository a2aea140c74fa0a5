"""``exactly_once_v2``: actors that are fenced, frozen, or stopped, and the ids that they leave."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.orders import Stop
from penstock.actors.process.stream_actor import StreamActor
from penstock.actors.status import TaskState
from penstock.common.errors import StateStoreLockedError
from penstock.common.ids import TaskId, TopicPartition
from penstock.testing.fake_producers import FakeTransactionalProducer
from tests.actors.exactly_once import TASK, application
from tests.actors.rig import APPLICATION, settle, states


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", "init_transactions"])
def test_a_call_that_never_returns_is_given_up_and_its_client_left_alone_until_it_does(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may wait for ever while it looks for a coordinator, and ignores its timeout."""
    rig = application(tmp_path)
    loop = rig.running()
    stuck: Future[None] = Future()
    held: list[FakeTransactionalProducer] = []
    closed: list[FakeTransactionalProducer] = []
    true_call, close = getattr(FakeTransactionalProducer, call), FakeTransactionalProducer.close

    def never_returning(self: FakeTransactionalProducer, *given: Any) -> Future[None]:
        monkeypatch.setattr(FakeTransactionalProducer, call, true_call)
        held.append(self)
        return stuck

    def closing(self: FakeTransactionalProducer) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(FakeTransactionalProducer, call, never_returning)
    monkeypatch.setattr(FakeTransactionalProducer, "close", closing)
    rig.write("in", ("a", "x", 1))
    settle(loop)
    if call == "abort_transaction":
        rig.coordinator.join()  # as another member the actor may not commit: it aborts
    if call == "init_transactions":
        rig.broker.expire_transactions()  # the producer is spent: another one takes the id
    rig.commit(loop)
    rig.clock.now_ms += int(FakeTransactionalProducer.answers_within_s * 1000) - 5000
    settle(loop)
    assert rig.counts() == [], "the transaction may take that long, and has not ended"
    rig.clock.now_ms += 10_000
    settle(loop)
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]
    assert held[0] not in closed, "a client that is in use must not be destroyed"
    stuck.set_result(None)
    assert held[0] in closed
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


def test_an_actor_that_ends_while_it_takes_its_id_again_leaves_the_producer_alone_that_it_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.expire_transactions()
    rig.broker.down = True
    rig.clock.now_ms += 1001
    for _ in range(20):
        loop.step()
    monkeypatch.setattr(FakeTransactionalProducer, "abort_transaction", lambda _: pytest.fail("it is closed"))
    with capture_logs() as logs:
        loop._fail(ValueError("anything"))
    assert loop.finished.done()
    assert [log["event"] for log in logs] == ["stream loop failed"]


def test_a_zombie_that_wakes_up_writes_nothing(tmp_path: Path) -> None:
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)  # processed, not committed
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))  # the coordinator fences it
    there = rig.on_another_node(tmp_path / "1")
    successor = there.loop(slot=2)
    there.assign(successor, 2, TASK)
    settle(successor)
    rig.commit(successor)
    assert rig.counts() == [("a", 2)]
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.write("in", ("b", "x", 2))
    rig.commit(zombie)
    rig.commit(zombie)
    assert states(zombie) == {}
    rig.coordinator.refusal = ""
    rig.commit(successor)
    assert rig.counts() == [("a", 2), ("b", 2)]


def test_a_zombie_that_is_refused_leaves_its_id_to_its_present_owner_until_it_is_wanted_again(
    tmp_path: Path,
) -> None:
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)
    name = transactional_id(APPLICATION, "", 1)
    rig.broker.init_producer(name)
    epoch = rig.broker._producers[name][0]
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    for _ in range(5):
        rig.commit(zombie)
    assert states(zombie) == {}
    assert rig.broker._producers[name][0] == epoch
    assert not zombie.finished.done()
    rig.coordinator.refusal = ""
    rig.assign(zombie, 2, TASK)
    settle(zombie)
    rig.commit(zombie)
    assert rig.broker._producers[name][0] == epoch + 1
    assert rig.counts() == [("a", 2)]


def test_a_zombie_that_is_refused_opens_no_standby_until_it_is_wanted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path, partitions=2)
    zombie = rig.running(TASK)
    wanted, kept = ({TaskId(0, n): frozenset({TopicPartition("in", n)})} for n in (0, 1))
    with monkeypatch.context() as patch:
        locked = StateStoreLockedError("another actor has it")
        patch.setattr("penstock.actors.standbys.standbys.open_standby_task", Mock(side_effect=locked))
        zombie.assign(2, wanted, kept)
        settle(zombie)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.write("in", ("a", "x", 1), partition=0)
    for _ in range(40):
        rig.commit(zombie)
    assert not zombie.finished.done(), zombie.finished.result()
    assert zombie._standbys.by_id == {}
    rig.coordinator.refusal = ""
    zombie.assign(3, wanted, kept)
    settle(zombie)
    assert states(zombie) == {TASK: TaskState.RUNNING}
    assert zombie._standbys.by_id.keys() == kept.keys()


def test_a_zombie_that_finds_an_old_assignment_when_it_wakes_up_drops_all_without_an_error(tmp_path: Path) -> None:
    rig = application(tmp_path, partitions=2)
    zombie = rig.running(TASK)
    rig.write("in", ("a", "x", 1), partition=0)
    settle(zombie)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    taken = rig.assign(zombie, 2, TaskId(0, 1))
    settle(zombie)
    assert taken.result(0) is None
    assert not zombie.finished.done(), zombie.finished.result()
    assert states(zombie) == {}
    assert rig.counts() == []


def test_no_task_is_reported_as_released_while_its_last_commit_is_in_doubt(tmp_path: Path) -> None:
    """Its next owner would continue from offsets that may still change."""
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.loses_answers = True
    rig.coordinator.refusal = "it was that of an earlier actor by the name of stream/1"
    doubts: list[bool] = []
    loop.assign(2, {}).add_done_callback(lambda _: doubts.append(loop._guarantee.in_doubt))
    settle(loop)
    assert doubts == [False]


def test_one_that_is_being_fenced_waits_for_what_comes_of_it(tmp_path: Path) -> None:
    """The coordinator does not answer before that."""
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)
    name = transactional_id(APPLICATION, "", 1)
    rig.broker.init_producer(name)
    epoch = rig.broker._producers[name][0]
    rig.coordinator.hold()
    rig.commit(zombie)
    assert rig.broker._producers[name][0] == epoch
    rig.stop(zombie)
    assert zombie.finished.done(), "a stop is not held up"


@pytest.mark.parametrize("heard", [True, False])
def test_a_stop_reports_that_the_outcome_of_its_last_commit_is_unknown(tmp_path: Path, heard: bool) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.loses_answers = not heard
    rig.stop(loop)
    actor = StreamActor(APPLICATION, "stream/1", b"")
    actor._loop = loop
    assert asyncio.run(actor.tell(Stop())) is not heard
    assert asyncio.run(actor.wait()).in_doubt is not heard
