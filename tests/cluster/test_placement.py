"""Standbys, and the tasks that move to them when an actor is lost."""

from __future__ import annotations

import pytest

from penstock.cluster.events import (
    ActorFenced,
    ActorRecovered,
    ActorReported,
    ClusterResized,
    Deploy,
    FenceActor,
    GroupAssigned,
    NodesDraining,
    Timer,
    TimerFired,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.placement import BEHIND, CAUGHT_UP, PLAN, TASKS, Cluster


def test_each_task_has_its_standbys_on_other_actors() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    assert cluster.standbys == {first: cluster.tasks[second], second: cluster.tasks[first]}
    assert cluster.machine.standbys == {
        task: (second if task in cluster.tasks[first] else first,) for task in sorted(TASKS)
    }


def test_stateless_tasks_and_stores_without_changelog_have_none() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 2}), SubtopologyTasks(1, {"words": 2}, stateful=True)))
    cluster = Cluster(StandbyPolicy(replicas=1), plan)
    cluster.on("a", "b")
    assert set(cluster.standbys.values()) == {frozenset()}


def test_there_are_as_many_actors_as_a_task_and_its_standbys_need() -> None:
    cluster = Cluster(
        StandbyPolicy(replicas=2), TaskPlan((SubtopologyTasks(0, {"lines": 1}, stateful=True, logged=True),))
    )
    cluster.on("a", "b", "c")
    assert sorted(map(len, cluster.tasks.values())) == [0, 0, 1]
    assert sorted(map(len, cluster.standbys.values())) == [0, 1, 1]


def test_the_tasks_of_a_lost_actor_go_to_their_standbys_at_once() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    cluster.report(lag=CAUGHT_UP)
    cluster.lose(first)
    assert cluster.tasks == {second: TASKS}
    assert cluster.starts() == ["stream/3"]


def test_the_standby_with_the_least_lag_is_promoted() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 1}, stateful=True, logged=True),))
    cluster = Cluster(StandbyPolicy(replicas=2), plan)
    names = cluster.on("a", "b", "c")
    (active,) = (name for name in names if cluster.tasks[name])
    behind, ahead = (name for name in names if not cluster.tasks[name])
    for name, lag in ((behind, 7), (ahead, 3)):
        cluster(ActorReported(name, frozenset(), cluster.machine._actors[name].epoch, {TaskId(0, 0): lag}))
    cluster.lose(active)
    assert cluster.tasks[ahead] == {TaskId(0, 0)}


def test_a_standby_on_a_drained_node_is_promoted_only_where_there_is_no_other() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 1}, stateful=True, logged=True),))
    cluster = Cluster(StandbyPolicy(replicas=2), plan)
    names = cluster.on("a", "b", "c")
    (active,) = (name for name in names if cluster.tasks[name])
    drained, other = (name for name in names if not cluster.tasks[name])
    for name, lag in ((drained, 3), (other, 7)):
        cluster(ActorReported(name, frozenset(), cluster.machine._actors[name].epoch, {TaskId(0, 0): lag}))
    cluster(NodesDraining({cluster.nodes[drained]: 300.0}))
    cluster.lose(active)
    assert cluster.tasks[other] == {TaskId(0, 0)}


def test_without_a_standby_that_has_caught_up_a_replacement_is_awaited() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    cluster.report(lag=BEHIND)
    mine = cluster.tasks[second]
    cluster.lose(first)
    assert cluster.tasks == {second: mine}
    cluster(TimerFired(Timer.WAIT_FOR_ACTORS))
    assert cluster.tasks == {second: TASKS}


def test_a_standby_that_has_caught_up_is_kept_until_its_replacement_has() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 8}, stateful=True, logged=True),))
    cluster = Cluster(StandbyPolicy(replicas=1), plan)
    first, second = cluster.on("a", "b")
    cluster(ClusterResized(3))
    (third,) = cluster.up("c")

    def report(lag: int) -> None:
        """``third`` is new, and this much behind."""
        for name in (first, second, third):
            behind = lag if name == third else 0
            lags = dict.fromkeys(cluster.standbys[name], behind)
            cluster(ActorReported(name, cluster.tasks[name], cluster.machine._actors[name].epoch, lags))

    def places(*names: str) -> list[TaskId]:
        return sorted(task for name in names for task in (*cluster.tasks[name], *cluster.standbys[name]))

    for _ in range(3):
        report(BEHIND)
        assert cluster.standbys[third]
        assert places(first, second) == sorted([*plan.partitions, *plan.partitions])
    for _ in range(9):
        report(CAUGHT_UP)
    assert places(first, second, third) == sorted([*plan.partitions, *plan.partitions])
    assert sorted(map(len, cluster.tasks.values())) == [2, 3, 3]


def test_exactly_once_a_replacement_that_is_up_before_the_fence_takes_nothing_from_the_standby() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1), exactly_once=True)
    first, second = cluster.on("a", "b")
    cluster.lose(first)
    cluster.up("c")
    cluster(ActorFenced(first))
    assert cluster.tasks[second] == TASKS


def test_standbys_of_tasks_that_are_no_longer_planned_are_not_reported_without_a_session() -> None:
    """The dispatcher names with each standby the partitions that it reads: those of such a task are not known."""
    cluster = Cluster(StandbyPolicy(replicas=1))
    gone = TaskId(7, 0)
    cluster(ActorRecovered("stream/1", 5, frozenset(), False, 1, "a", frozenset({gone, TaskId(0, 0)})))
    cluster(ClusterResized(2), GroupAssigned(None))
    assert cluster.standbys == {"stream/1": {TaskId(0, 0)}}


def test_exactly_once_a_standby_is_promoted_when_the_lost_actor_is_fenced() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1), exactly_once=True)
    first, second = cluster.on("a", "b")
    mine = cluster.tasks[second]
    cluster.lose(first)
    assert cluster.tasks == {second: mine}
    assert [it for it in cluster.reported if isinstance(it, FenceActor)] == [FenceActor(first, 1, node="a")]
    assert cluster.standbys[second] == TASKS - mine, "they wait as standbys"
    cluster(ActorFenced(first))
    assert cluster.tasks == {second: TASKS}


def test_a_restarted_coordinator_leaves_tasks_and_standbys_where_they_are() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    tasks, standbys = dict(cluster.tasks), dict(cluster.standbys)
    again = Cluster(StandbyPolicy(replicas=1))
    for name, node in ((first, "a"), (second, "b")):
        again(ActorRecovered(name, 20, tasks[name], node=node, standbys=standbys[name]))
    reads = frozenset(partition for partitions in PLAN.partitions.values() for partition in partitions)
    again(ClusterResized(2), GroupAssigned(reads))
    assert (again.tasks, again.standbys) == (tasks, standbys)


@pytest.mark.parametrize(("tags", "on_c"), [((), 1), (("zone",), 2)])
def test_the_labels_of_nodes_decide_where_tags_are_given(tags: tuple[str, ...], on_c: int) -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 3}, stateful=True, logged=True),))
    cluster = Cluster(StandbyPolicy(replicas=1, tags=tags), plan)
    labels = {"a": {"zone": "west"}, "b": {"zone": "west"}, "c": {"zone": "east"}}
    reads = frozenset(partition for partitions in plan.partitions.values() for partition in partitions)
    cluster(ClusterResized(3, labels), GroupAssigned(reads))
    _, _, third = cluster.up("a", "b", "c")
    assert len(cluster.standbys[third]) == on_c


def test_the_lag_of_a_standby_is_forgotten_with_it() -> None:
    """There may be another standby on that actor later, which has to begin again."""
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    cluster.report(lag=7)
    assert cluster.machine._actors[second].lags == dict.fromkeys(cluster.tasks[first], 7)
    cluster.lose(first)
    assert cluster.tasks[second] == TASKS
    assert cluster.machine._actors[second].lags == {}


def test_a_restarted_coordinator_knows_at_once_how_far_standbys_are() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    behind, ahead = TaskId(0, 0), TaskId(0, 1)
    lags = {behind: BEHIND, ahead: CAUGHT_UP}
    cluster(ActorRecovered("stream/1", 20, frozenset(), node="a", standbys=frozenset(lags), lags=lags))
    cluster(ActorRecovered("stream/2", 20, frozenset({TaskId(0, 2)}), node="b"))
    reads = frozenset(partition for partitions in PLAN.partitions.values() for partition in partitions)
    cluster(ClusterResized(3), GroupAssigned(reads))
    assert cluster.starts() == ["stream/3"]
    assert cluster.tasks["stream/1"] == {ahead}, "while another actor starts only what has caught up is promoted"


def test_in_a_roll_out_a_standby_begins_when_the_old_one_on_its_node_is_closed() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    old = cluster.on("a", "b", "c")
    where = {task: cluster.nodes[name] for name, tasks in cluster.standbys.items() for task in tasks}
    still_open = {name: cluster.standbys[name] for name in old}
    cluster.late = set(old)
    cluster(Deploy(2, 60.0))
    new = cluster.up("a", "b", "c")
    for _ in range(12):
        cluster.report()
        for name in new:
            beside = [each for each in old if cluster.nodes[each] == cluster.nodes[name]]
            assert not any(still_open[each] & cluster.standbys.get(name, frozenset()) for each in beside)
        for name in cluster.confirm_late():
            still_open[name] = cluster.standbys[name]
        for name in cluster.end_those_that_stop():
            still_open[name] = frozenset()
    assert set(cluster.tasks) == set(new)
    assert {task: cluster.nodes[name] for name in new for task in cluster.standbys[name]} == where
