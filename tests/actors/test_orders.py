"""Orders to a stream actor: each is carried out, and may come twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.orders import Assign, Order, Pause, Stop, Suspend
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId, TopicPartition
from penstock.state.disk.directory_lock import DirectoryLock
from penstock.testing.fake_producers import FakeProducer
from tests.actors.rig import Rig, settle, states

TASK = TaskId(0, 0)
READS = {TASK: frozenset({TopicPartition("in", 0)})}


def twice(loop: StreamLoop, order: Order) -> None:
    """Ray repeats what it cannot know to have arrived."""
    taken = [loop.take(order) for _ in range(2)]
    settle(loop)
    assert [done.result(0) for done in taken] == [None, None]


def test_an_actor_works_on_what_it_is_assigned_and_on_nothing_else(tmp_path: Path) -> None:
    loop = Rig(tmp_path).loop()
    twice(loop, Assign(1, READS, {}))
    assert states(loop) == {TASK: TaskState.RUNNING}
    twice(loop, Assign(2, {}, READS))
    assert states(loop) == {}
    assert list(loop._standbys.by_id) == [TASK]


def test_a_suspended_actor_commits_and_processes_nothing_until_the_next_assignment(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    twice(loop, Suspend(1))
    assert rig.committed() is None, "it has taken an assignment of that epoch: the order is late"
    twice(loop, Suspend(2))
    assert rig.committed() == 1
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert rig.committed() == 1
    twice(loop, Assign(3, READS, {}))
    rig.commit(loop)
    assert rig.committed() == 2


@pytest.mark.parametrize("late", [Suspend(1), Assign(0, {}, {})])
def test_an_order_that_comes_too_late_keeps_no_task_from_continuing_after_an_outage(
    tmp_path: Path, late: Order
) -> None:
    """An actor that goes back to the last commit stops if an order waits: most likely that is another assignment."""
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.down = True
    rig.clock.now_ms += 1001
    loop.step()
    loop.step()
    assert isinstance(loop._guarantee.producer, FakeProducer)
    loop._guarantee.producer.expire()
    settle(loop)
    assert states(loop) == {TASK: TaskState.CREATED}, "it waits for a broker"
    twice(loop, late)
    rig.broker.down = False
    rig.commit(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}


@pytest.mark.parametrize("late", [Suspend(4), Suspend(5), Assign(4, READS, {})])
def test_an_order_that_comes_too_late_keeps_no_task_from_being_opened(tmp_path: Path, late: Order) -> None:
    """A task that moves between two actors of one node waits for the lock of its directory; an order ends that wait."""
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    lock = DirectoryLock(tmp_path / "app" / "0_0")
    loop = rig.loop()
    assigned = loop.take(Assign(5, READS, {}))
    for _ in range(20):
        loop.step()
    assert assigned.result(0) is None
    assert states(loop) == {}, "it waits for the lock"
    twice(loop, late)
    lock.release()
    rig.commit(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}
    assert rig.counts() == [("a", 1)]


def test_a_suspension_that_is_repeated_after_its_assignment_keeps_no_task_from_being_opened(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running(TASK, epoch=5)
    other = TaskId(0, 1)
    lock = DirectoryLock(tmp_path / "app" / "0_1")
    loop.take(Suspend(6))
    loop.take(Assign(7, READS | {other: frozenset({TopicPartition("in", 1)})}, {}))
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}, "the other one waits for the lock"
    twice(loop, Suspend(6))
    lock.release()
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING, other: TaskState.RUNNING}


def test_a_paused_actor_processes_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    twice(loop, Pause(True))
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert rig.committed() is None
    twice(loop, Pause(False))
    rig.commit(loop)
    assert rig.committed() == 1


def test_a_stopped_actor_has_committed_and_ended(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    twice(loop, Stop())
    assert rig.committed() == 1
    assert loop.finished.result(0) is None
