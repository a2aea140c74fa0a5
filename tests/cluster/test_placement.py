"""Tasks that move: to standbys when an actor is lost, and for balance when their stores are there."""

from __future__ import annotations

import pytest

from penstock.cluster.coordinator.coordinator import PROBE_EVERY_MS, Coordinator
from penstock.cluster.events import (
    ActorAssigned,
    ActorFenced,
    ActorLost,
    ActorRecovered,
    ActorReported,
    ActorStopped,
    ActorUp,
    AssignTasks,
    ClusterResized,
    Deploy,
    Event,
    FenceActor,
    GroupAssigned,
    Instruction,
    NodesDraining,
    SetTimer,
    StartActor,
    StopActor,
    Timer,
    TimerFired,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 4}, stateful=True, logged=True),))
TASKS = frozenset(PLAN.partitions)
CAUGHT_UP, BEHIND = 10_000, 10_001
"""The most offsets that a standby may lack by default, and one more."""


class Cluster:
    """A coordinator over actors that carry out orders at once, but restore only when the test calls for it."""

    def __init__(self, policy: StandbyPolicy, plan: TaskPlan = PLAN, exactly_once: bool = False) -> None:
        self.machine = Coordinator(plan, None, 10, exactly_once, policy)
        self.plan = plan
        self.tasks: dict[str, frozenset[TaskId]] = {}
        self.standbys: dict[str, frozenset[TaskId]] = {}
        self.lags: dict[tuple[str, TaskId], int] = {}
        self.nodes: dict[str, str] = {}
        self.reported: list[Instruction] = []
        self.late: set[str] = set()
        """Actors that do not confirm at once."""
        self.unconfirmed: list[ActorAssigned] = []

    def __call__(self, *events: Event) -> None:
        waiting: list[Event] = list(events)
        while waiting:
            for reported in self.machine.handle(waiting.pop(0)):
                self.reported.append(reported)
                if isinstance(reported, AssignTasks):
                    self.tasks[reported.actor_id], self.standbys[reported.actor_id] = reported.tasks, reported.standbys
                    confirms = self.unconfirmed if reported.actor_id in self.late else waiting
                    confirms.append(ActorAssigned(reported.actor_id, reported.epoch))

    def starts(self) -> list[str]:
        """The actors that are to be started and are not up."""
        return [it.actor_id for it in self.reported if isinstance(it, StartActor) and it.actor_id not in self.nodes]

    def up(self, *nodes: str) -> list[str]:
        """The actors that are awaited come up on these nodes."""
        names = self.starts()
        for name, node in zip(names, nodes, strict=True):
            self.nodes[name] = node
            self(ActorUp(name, node))
        return names

    def report(self, lag: int = 0) -> None:
        """Lets all actors report what they have, with standbys this many offsets behind."""
        for name, actor in list(self.machine._actors.items()):
            lags = dict.fromkeys(self.standbys.get(name, ()), lag)
            self(ActorReported(name, self.tasks.get(name, frozenset()), actor.epoch, lags))

    def lose(self, name: str) -> None:
        self.tasks.pop(name, None)
        self.standbys.pop(name, None)
        self(ActorLost(name))

    def confirm_late(self) -> list[str]:
        """Lets the slow actors confirm their last assignments; returns their names."""
        waiting, self.unconfirmed = self.unconfirmed, []
        self(*waiting)
        return [it.actor_id for it in waiting]

    def end_those_that_stop(self) -> list[str]:
        """Lets the actors that have the order to stop end, committed and closed; returns their names."""
        names = [it.actor_id for it in self.reported if isinstance(it, StopActor) and it.actor_id in self.tasks]
        for name in names:
            del self.tasks[name], self.standbys[name]
            self(ActorStopped(name))
        return names

    def on(self, *nodes: str) -> list[str]:
        """Run on these nodes."""
        reads = frozenset(partition for partitions in self.plan.partitions.values() for partition in partitions)
        self(ClusterResized(len(nodes)), GroupAssigned(reads))
        names = self.up(*nodes)
        self.report()
        return names


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
