"""Tasks that move to another actor for balance, or off a drained node, once their stores are there."""

from __future__ import annotations

import pytest

from penstock.cluster.coordinator.coordinator import PROBE_EVERY_MS
from penstock.cluster.events import (
    ActorReported,
    ClusterResized,
    GroupAssigned,
    NodesDraining,
    SetTimer,
    Timer,
    TimerFired,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.placement import BEHIND, CAUGHT_UP, TASKS, Cluster


def test_a_task_moves_to_another_node_when_its_stores_have_caught_up_there() -> None:
    cluster = Cluster(StandbyPolicy())
    (first,) = cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    assert cluster.tasks == {first: TASKS, second: frozenset()}
    assert cluster.standbys[second] == {TaskId(0, 2), TaskId(0, 3)}
    assert cluster.machine.moving == {TaskId(0, 2): second, TaskId(0, 3): second}
    cluster.report(lag=BEHIND)
    assert cluster.tasks[first] == TASKS
    cluster.report(lag=CAUGHT_UP)
    assert cluster.tasks[second] == {TaskId(0, 2), TaskId(0, 3)}
    assert cluster.tasks[first] == {TaskId(0, 0), TaskId(0, 1)}
    assert cluster.standbys == {first: frozenset(), second: frozenset()}
    assert not cluster.machine.moving


def test_nothing_is_to_move_any_more_when_the_group_has_taken_all_tasks_away() -> None:
    cluster = Cluster(StandbyPolicy())
    cluster.on("a")
    cluster(ClusterResized(2))
    cluster.up("b")
    assert cluster.machine.moving
    cluster(GroupAssigned(frozenset()))
    assert not cluster.machine.moving


def test_no_more_tasks_warm_up_at_a_time_than_max_warmup_replicas() -> None:
    cluster = Cluster(StandbyPolicy(max_warmups=1))
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    assert cluster.standbys[second] == {TaskId(0, 2)}
    cluster.report(lag=BEHIND)
    assert cluster.standbys[second] == {TaskId(0, 2)}
    cluster.report(lag=0)
    assert cluster.tasks[second] == {TaskId(0, 2)}
    assert cluster.standbys[second] == {TaskId(0, 3)}
    cluster.report(lag=0)
    assert cluster.tasks[second] == {TaskId(0, 2), TaskId(0, 3)}
    assert not cluster.standbys[second]


def test_on_the_same_node_a_task_moves_at_once_for_its_stores_are_there() -> None:
    cluster = Cluster(StandbyPolicy())
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("a")
    assert len(cluster.tasks[second]) == 2


def test_but_not_where_its_stores_are_in_memory() -> None:
    cluster = Cluster(
        StandbyPolicy(), TaskPlan((SubtopologyTasks(0, {"lines": 2}, stateful=True, logged=True, in_memory=True),))
    )
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("a")
    assert not cluster.tasks[second]
    assert len(cluster.standbys[second]) == 1


def test_a_task_without_stores_moves_at_once() -> None:
    cluster = Cluster(StandbyPolicy(), TaskPlan((SubtopologyTasks(0, {"lines": 2}),)))
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    assert len(cluster.tasks[second]) == 1


def test_after_the_loss_of_an_actor_the_node_that_has_the_stores_is_preferred() -> None:
    cluster = Cluster(StandbyPolicy())
    first, _, third = cluster.on("a", "b", "a")
    lost = cluster.tasks[first]
    assert len(lost) == 2
    before = len(cluster.tasks[third])
    cluster.lose(first)
    cluster(TimerFired(Timer.WAIT_FOR_ACTORS))
    assert sorted(map(len, cluster.tasks.values())) == [2, 2]
    assert len(lost & cluster.tasks[third]) == 2 - before


def test_a_promoted_task_goes_back_when_the_replacement_has_warmed_up() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    cluster.lose(first)
    (third,) = cluster.up("a")
    assert cluster.tasks[second] == TASKS
    assert cluster.standbys[third] == TASKS
    cluster.report(lag=0)
    cluster.report(lag=0)
    assert sorted(map(len, cluster.tasks.values())) == [2, 2]
    assert cluster.standbys == {second: cluster.tasks[third], third: cluster.tasks[second]}


def test_a_node_has_the_stores_of_what_ran_there_not_of_what_was_meant_for_it() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 2}, stateful=True, logged=True),))
    cluster = Cluster(StandbyPolicy(), plan)
    first, second = cluster.on("a", "b")
    ran = {"a": cluster.tasks[first], "b": cluster.tasks[second]}
    for name in (first, second):
        cluster.lose(name)
    for name in cluster.up("c", "d"):  # they are lost before anything runs there
        assert cluster.tasks[name]
        cluster.lose(name)
    cluster(TimerFired(Timer.REPLACE_ACTORS))
    names = dict(zip(("b", "a"), cluster.up("b", "a"), strict=True))
    assert {node: cluster.tasks[names[node]] for node in ran} == ran


def test_a_warm_up_that_comes_no_nearer_lets_others_go_first_and_gets_another_try() -> None:
    cluster = Cluster(StandbyPolicy(max_warmups=1))
    cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    first_try, other = TaskId(0, 2), TaskId(0, 3)
    assert SetTimer(Timer.PROBE, PROBE_EVERY_MS) in cluster.reported

    def later(lag: int) -> frozenset[TaskId]:
        cluster.report(lag)
        cluster(TimerFired(Timer.PROBE))
        return cluster.standbys[second]

    assert later(BEHIND + 10) == {first_try}, "this was the first look"
    assert later(BEHIND + 9) == {first_try}, "it comes nearer"
    assert later(BEHIND + 9) == {other}
    assert later(BEHIND + 9) == {other}, "it has its time, too"
    assert later(BEHIND + 9) == {first_try}
    cluster.report(lag=0)
    assert cluster.tasks[second] == {first_try}
    assert cluster.standbys[second] == {other}
    cluster.report(lag=0)
    assert cluster.tasks[second] == {first_try, other}
    timers = cluster.reported.count(SetTimer(Timer.PROBE, PROBE_EVERY_MS))
    cluster(TimerFired(Timer.PROBE))
    assert cluster.reported.count(SetTimer(Timer.PROBE, PROBE_EVERY_MS)) == timers, "nothing is to move any more"


@pytest.mark.parametrize("begun", [False, True])
def test_a_task_that_must_leave_does_not_wait_for_ever_for_a_warm_up_that_never_begins(begun: bool) -> None:
    cluster = Cluster(StandbyPolicy(replicas=0))
    (old,) = cluster.on("a")
    cluster(NodesDraining({"a": None}))
    (new,) = cluster.up("b")
    for _ in range(4):
        if begun:
            cluster.report(BEHIND)
        else:
            for name, tasks in cluster.tasks.items():
                cluster(ActorReported(name, tasks, cluster.machine._actors[name].epoch))
        cluster(TimerFired(Timer.PROBE))
    assert bool(cluster.tasks[new]) is not begun
    assert begun == (old in cluster.machine.placement.values())
