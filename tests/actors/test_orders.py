"""What a stream actor is told, as it arrives: each order does what it says, and may come twice."""

from __future__ import annotations

from pathlib import Path

from penstock.actors.messages import TaskState
from penstock.actors.orders import Assign, Order, Pause, Stop, Suspend
from penstock.actors.stream_loop import StreamLoop
from penstock.common.ids import TaskId, TopicPartition
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


def test_a_paused_actor_processes_nothing_until_it_is_told_to_go_on(tmp_path: Path) -> None:
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
