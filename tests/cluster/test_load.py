"""The load of stream actors, measured between two looks."""

from __future__ import annotations

import pytest

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.scaling.load import LoadWindow
from penstock.common.ids import TaskId, TopicPartition

RUNNING, RESTORING = TaskState.RUNNING, TaskState.RESTORING
A, B = TaskId(0, 0), TaskId(0, 1)


def task(id: TaskId, processed: int, lag: int = 0, busy_s: float = 0.0, state: TaskState = RUNNING) -> TaskStatus:
    return TaskStatus(id, state, processed, lags={TopicPartition("in", id.partition): lag}, busy_s=busy_s)


def actor(at_s: float, *tasks: TaskStatus, idle_s: float = 0.0, name: str = "stream/1", epoch: int = 7) -> ActorStatus:
    return ActorStatus(name, "node", 1, epoch, tasks, running_s=100 + at_s, idle_s=idle_s)


def test_rates_are_those_between_the_first_and_the_last_look_of_the_window() -> None:
    window = LoadWindow(10.0)
    assert window.look(0.0, [actor(0, task(A, 0, 50), task(B, 100))]) is None
    assert window.look(5.0, [actor(5, task(A, 300, 40, busy_s=2.0), task(B, 200, busy_s=1.0), idle_s=2.0)]) is None
    loads = window.look(10.0, [actor(10, task(A, 500, 150, busy_s=4.0), task(B, 300, busy_s=2.0), idle_s=4.0)])
    assert loads is not None
    assert loads[A].processed == 50
    assert loads[A].arrivals == 60  # those processed, and those by which the lag has grown
    assert loads[A].lag == 150
    assert loads[B].arrivals == loads[B].processed == 20
    # The actor's tasks took all of the 6 s in which it was busy.
    assert loads[A].cost_s == pytest.approx(4.0 / 500)
    assert loads[A].demand(catch_up_s=15.0) == pytest.approx((60 + 10) * 4.0 / 500)


def test_work_of_an_actor_beside_its_tasks_counts_as_theirs() -> None:
    window = LoadWindow(10.0)
    window.look(0.0, [actor(0, task(A, 0))])
    loads = window.look(10.0, [actor(10, task(A, 1000, busy_s=4.0), idle_s=4.0)])
    assert loads is not None
    assert loads[A].cost_s == pytest.approx(0.006)


def test_the_time_in_which_an_actor_only_polls_adds_little_to_the_cost_of_a_record() -> None:
    window = LoadWindow(10.0)
    window.look(0.0, [actor(0, task(A, 0))])
    loads = window.look(10.0, [actor(10, task(A, 1, busy_s=0.001), idle_s=9.0)])
    assert loads is not None
    assert loads[A].cost_s == pytest.approx(0.002)


def test_the_window_slides() -> None:
    window = LoadWindow(10.0)
    for second in range(31):
        loads = window.look(second, [actor(second, task(A, 10 * second if second < 20 else 200, busy_s=second))])
    assert loads is not None
    assert loads[A].processed == 0


@pytest.mark.parametrize(
    ("what", "moved"),
    [
        ("a task restores", [actor(10, task(A, 5), task(B, 0, state=RESTORING))]),
        ("a task is elsewhere", [actor(10, task(A, 5)), actor(10, task(B, 0), name="stream/2")]),
        ("a task is gone", [actor(10, task(A, 5))]),
        ("another assignment", [actor(10, task(A, 5), task(B, 0), epoch=8)]),
        ("a task began anew", [actor(10, task(A, 1), task(B, 0))]),
    ],
)
def test_it_begins_again_when(what: str, moved: list[ActorStatus]) -> None:
    window = LoadWindow(10.0)
    before = [actor(0, task(A, 3), task(B, 0))]
    assert window.look(0.0, before) is None
    assert window.look(10.0, moved) is None, what
    after = [actor(25, *(task(it.task_id, 9) for it in each.tasks), name=each.actor_id, epoch=9) for each in moved]
    assert window.look(11.0, after) is None
    assert window.look(20.5, after) is None
    again = [actor(35, *(task(it.task_id, 9) for it in each.tasks), name=each.actor_id, epoch=9) for each in moved]
    assert window.look(21.0, again) is not None


def test_a_task_that_processes_nothing_is_taken_to_be_like_its_siblings() -> None:
    window = LoadWindow(10.0)
    window.look(0.0, [actor(0, task(A, 0), task(B, 0, 70))])
    loads = window.look(10.0, [actor(10, task(A, 100, busy_s=1.0), task(B, 0, 70), idle_s=9.0)])
    assert loads is not None
    assert loads[B].cost_s == loads[A].cost_s == pytest.approx(0.01)


def test_without_progress_the_remaining_time_is_unknown_and_without_lag_it_is_zero() -> None:
    for lag, known in ((70, False), (0, True)):
        window = LoadWindow(10.0)
        window.look(0.0, [actor(0, task(A, 8, lag))])
        assert (window.look(10.0, [actor(10, task(A, 8, lag))]) is not None) == known


def test_an_actor_that_has_not_answered_since_is_not_taken_for_an_idle_one() -> None:
    window = LoadWindow(10.0)
    silent = actor(0, task(B, 0), name="stream/2")
    window.look(0.0, [actor(0, task(A, 0)), silent])
    assert window.look(10.0, [actor(10, task(A, 50, busy_s=1.0)), silent]) is None
