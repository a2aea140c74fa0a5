"""Tasks that users move, and actors that users restart."""

from __future__ import annotations

import pytest

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorFailed,
    ActorLost,
    ActorRecovered,
    ActorSilent,
    ActorsWanted,
    AssignTasks,
    ClusterResized,
    Deploy,
    Event,
    GroupAssigned,
    Instruction,
    MoveTaskRequested,
    NodesDraining,
    RestartActorRequested,
    SetWishes,
    StartActor,
    StopActor,
    StopRequested,
    Timer,
    TimerFired,
)
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.placement import BEHIND, CAUGHT_UP, PLAN, TASKS, Cluster

STATELESS = TaskPlan((SubtopologyTasks(0, {"lines": 4}),))
ALL = PLAN.reads


def counts(cluster: Cluster) -> list[int]:
    return [len(cluster.tasks[name]) for name in sorted(cluster.tasks)]


def first_of(cluster: Cluster, name: str) -> TaskId:
    return min(cluster.tasks[name])


# ---- a move ----


def test_a_task_without_stores_moves_at_once_and_stays_although_that_is_not_balanced() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second = cluster.on("a", "b")
    task = first_of(cluster, first)
    cluster(MoveTaskRequested(task, second))
    assert task in cluster.tasks[second]
    assert counts(cluster) == [1, 3]
    cluster(ClusterResized(2), GroupAssigned(ALL))
    cluster.report()
    assert counts(cluster) == [1, 3]


def test_a_task_with_stores_on_another_node_is_warmed_up_first_and_handed_over_when_it_has_caught_up() -> None:
    cluster = Cluster(StandbyPolicy())
    first, second = cluster.on("a", "b")
    task = first_of(cluster, first)
    cluster(MoveTaskRequested(task, second))
    assert cluster.machine.moving == {task: second}
    assert task in cluster.tasks[first]
    assert task in cluster.standbys[second]
    cluster.report(lag=BEHIND)
    assert task in cluster.tasks[first]
    cluster.report(lag=CAUGHT_UP)
    assert task in cluster.tasks[second]
    assert not cluster.machine.moving
    cluster.report()
    assert counts(cluster) == [1, 3]


def test_it_is_handed_over_only_when_the_actor_that_had_it_has_committed_and_released_it() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second = cluster.on("a", "b")
    cluster.late = {first}
    task = first_of(cluster, first)
    cluster(MoveTaskRequested(task, second))
    assert task not in cluster.tasks[first] | cluster.tasks[second]
    cluster.confirm_late()
    assert task in cluster.tasks[second]


def test_a_wanted_move_is_warmed_up_before_those_for_balance() -> None:
    cluster = Cluster(StandbyPolicy(max_warmups=1))
    (first,) = cluster.on("a")
    cluster(ClusterResized(2))
    (second,) = cluster.up("b")
    assert cluster.standbys[second] == {TaskId(0, 2)}
    cluster(MoveTaskRequested(TaskId(0, 0), second))
    assert cluster.standbys[second] == {TaskId(0, 0)}
    assert first in cluster.tasks


def test_the_other_tasks_are_balanced_among_themselves() -> None:
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 9}),))
    cluster = Cluster(StandbyPolicy(), plan)
    names = cluster.on("a", "b", "c")
    for task in sorted(plan.partitions)[:3]:
        cluster(MoveTaskRequested(task, names[0]))
    others = [len(cluster.tasks[name] - set(sorted(plan.partitions)[:3])) for name in names]
    assert others == [2, 2, 2]
    assert len(cluster.tasks[names[0]]) == 5


@pytest.mark.parametrize("change", ["comes", "goes", "is lost"])
def test_when_an_actor_comes_or_goes_the_wish_ends_and_all_tasks_are_balanced(change: str) -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second, third = cluster.on("a", "b", "c")
    for task in sorted(TASKS - cluster.tasks[third]):
        cluster(MoveTaskRequested(task, third))
    assert counts(cluster) == [0, 0, 4]
    if change == "comes":
        cluster(ClusterResized(4))
        cluster.up("d")
    elif change == "goes":
        cluster(ActorsWanted(2))
        cluster.end_those_that_stop()
    else:
        cluster.lose(first)
        cluster.up("a")
    loads = counts(cluster)
    assert max(loads) - min(loads) <= 1
    assert [it for it in cluster.reported if isinstance(it, SetWishes)][-1] == SetWishes(NO_WISHES)
    assert second


def test_a_later_wish_for_the_same_task_takes_the_place_of_the_first_also_back_to_where_it_is() -> None:
    cluster = Cluster(StandbyPolicy())
    first, second = cluster.on("a", "b")
    task = first_of(cluster, first)
    cluster(MoveTaskRequested(task, second), MoveTaskRequested(task, first))
    assert not cluster.machine.moving
    cluster.report(lag=0)
    assert task in cluster.tasks[first]


def test_an_equal_request_is_accepted_again_and_changes_nothing() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second = cluster.on("a", "b")
    request = MoveTaskRequested(first_of(cluster, first), second)
    cluster(request)
    assert cluster.machine.user_requests.refusal_of_move(request.task, request.to) is None
    cluster.reported.clear()
    cluster(request)
    assert cluster.reported == []


def test_a_task_goes_elsewhere_if_the_actor_is_lost_before_it_has_arrived() -> None:
    cluster = Cluster(StandbyPolicy())
    first, second = cluster.on("a", "b")
    task = first_of(cluster, first)
    cluster(MoveTaskRequested(task, second))
    cluster.lose(second)
    cluster(TimerFired(Timer.WAIT_FOR_ACTORS))
    assert cluster.tasks[first] == TASKS


REFUSED = [
    ((), "1_0", "stream/2", "there is no task 1_0"),
    ((), "0_0", "stream/7", "there is no stream actor stream/7; there are: stream/1, stream/2"),
    ((), "0_0", "stream/1", "task 0_0 is on stream/1 already"),
    ((StopRequested(),), "0_0", "stream/2", "the application is in state PENDING_SHUTDOWN"),
    ((GroupAssigned(None),), "0_0", "stream/2", "the session in the consumer group is lost: no task runs until there"),
    ((GroupAssigned(frozenset()),), "0_0", "stream/2", "the group gives task 0_0 to no actor of this Ray cluster now"),
    ((NodesDraining({"b": None}),), "0_0", "stream/2", "stream/2 is to end: its node will be gone"),
    ((ActorSilent("stream/2", True),), "0_0", "stream/2", "stream/2 gives no sign of life"),
    ((ClusterResized(3),), "0_0", "stream/3", "stream/3 has not started yet"),
    ((ActorsWanted(1),), "0_1", "stream/1", "stream/1 is ending"),
    ((ActorLost("stream/2", may_write_s=30.0),), "0_0", "stream/2", "stream/2 is lost"),
    ((Deploy(2, 60.0),), "0_0", "stream/2", "stream/2 runs version 1 of the program, which version 2 replaces"),
]


@pytest.mark.parametrize(("events", "task", "to", "reason"), REFUSED)
def test_a_move_is_refused_in_a_sentence_and_changes_nothing(
    events: tuple[Event, ...], task: str, to: str, reason: str
) -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    cluster.on("a", "b")
    cluster(*events)
    refused = cluster.machine.user_requests.refusal_of_move(TaskId.parse(task), to)
    assert refused is not None
    assert refused.startswith(reason)
    cluster.reported.clear()
    cluster(MoveTaskRequested(TaskId.parse(task), to))
    assert not any(isinstance(it, AssignTasks | SetWishes) for it in cluster.reported)


def test_an_actor_on_a_node_with_a_broken_disk_takes_no_tasks() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second, _ = cluster.on("a", "b", "b")
    cluster(ClusterResized(3, cpus_of={"a": 1, "b": 2}), ActorFailed(second, "no space left", disk_of="b"))
    refused = cluster.machine.user_requests.refusal_of_move(TaskId(0, 0), "stream/3")
    assert refused == "stream/3 is ending"
    assert first


# ---- a restart of an actor ----


def test_an_actor_that_is_restarted_commits_and_ends_and_another_starts_on_its_node_for_its_tasks() -> None:
    cluster = Cluster(StandbyPolicy())
    first, second = cluster.on("a", "b")
    mine = cluster.tasks[first]
    cluster.reported.clear()
    cluster(RestartActorRequested(first))
    assert [it for it in cluster.reported if isinstance(it, StopActor)] == [StopActor(first)]
    (start,) = [it for it in cluster.reported if isinstance(it, StartActor)]
    assert start.node == "a"
    cluster.end_those_that_stop()
    assert cluster.tasks[second] == TASKS - mine, "its tasks wait for the new actor"
    (third,) = cluster.up("a")
    assert cluster.tasks == {second: TASKS - mine, third: mine}
    assert cluster.machine.wanted == 2


def test_a_standby_that_has_caught_up_takes_a_task_at_once() -> None:
    cluster = Cluster(StandbyPolicy(replicas=1))
    first, second = cluster.on("a", "b")
    cluster.report(lag=0)
    cluster(RestartActorRequested(first))
    cluster.end_those_that_stop()
    assert cluster.tasks == {second: TASKS}
    cluster.up("a")
    for _ in range(4):
        cluster.report(lag=0)
    assert counts(cluster) == [2, 2]


def test_no_task_of_it_goes_elsewhere_before_it_has_ended() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, second = cluster.on("a", "b")
    mine = cluster.tasks[first]
    cluster(RestartActorRequested(first))
    (third,) = cluster.up("a")
    assert not mine & (cluster.tasks[second] | cluster.tasks.get(third, frozenset()))
    cluster.end_those_that_stop()
    assert cluster.tasks == {second: TASKS - mine, third: mine}


def test_the_only_actor_can_be_restarted_although_no_cpu_is_free_until_it_has_ended() -> None:
    cluster = Cluster(StandbyPolicy())
    (first,) = cluster.on("a")
    cluster(RestartActorRequested(first))
    cluster(TimerFired(Timer.WAIT_FOR_ACTORS))
    cluster.end_those_that_stop()
    (second,) = cluster.up("a")
    assert cluster.tasks == {second: TASKS}


def test_the_node_of_a_restarted_actor_is_not_wanted_if_actors_must_leave_it() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, _ = cluster.on("a", "b")
    cluster.machine._elasticity.start_next_on("a")
    cluster(NodesDraining({"a": None}))
    (start,) = [it for it in cluster.reported if isinstance(it, StartActor) and it.actor_id == "stream/3"]
    assert start.node == ""
    assert first


@pytest.mark.parametrize(
    ("events", "name", "reason"),
    [
        ((), "stream/7", "there is no stream actor stream/7"),
        ((StopRequested(),), "stream/1", "the application is in state PENDING_SHUTDOWN"),
        ((GroupAssigned(None),), "stream/1", "the session in the consumer group is lost"),
        ((NodesDraining({"a": None}),), "stream/1", "stream/1 is to end: its node will be gone"),
        ((ClusterResized(3),), "stream/3", "stream/3 has not started yet"),
        ((RestartActorRequested("stream/1"),), "stream/1", "stream/1 is ending"),
        ((ActorLost("stream/1", may_write_s=30.0),), "stream/1", "stream/1 is lost"),
        ((Deploy(2, 60.0),), "stream/1", "stream/1 runs version 1 of the program, which version 2 replaces"),
    ],
)
def test_a_restart_is_refused_in_a_sentence_and_changes_nothing(
    events: tuple[Event, ...], name: str, reason: str
) -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    cluster.on("a", "b")
    cluster(*events)
    refused = cluster.machine.user_requests.refusal_of_restart(name)
    assert refused is not None
    assert refused.startswith(reason)
    cluster.reported.clear()
    cluster(RestartActorRequested(name))
    assert not any(isinstance(it, StopActor) for it in cluster.reported)


def test_an_actor_that_gives_no_sign_of_life_can_be_restarted() -> None:
    cluster = Cluster(StandbyPolicy(), STATELESS)
    first, _ = cluster.on("a", "b")
    cluster(ActorSilent(first, True))
    assert cluster.machine.user_requests.refusal_of_restart(first) is None


# ---- a restart of the coordinator ----


def recovered(kept: Wishes, *actors: ActorRecovered) -> tuple[Coordinator, list[Instruction]]:
    """A coordinator that has found these actors, with what an earlier one has kept."""
    machine = Coordinator(PLAN, None, 100, standby_policy=StandbyPolicy(), wishes=kept)
    out: list[Instruction] = []
    events: list[Event] = [*actors, ClusterResized(len(actors)), GroupAssigned(ALL)]
    for event in events:
        out += machine.handle(event)
    return machine, out


def found(name: str, node: str, tasks: frozenset[TaskId], **more: object) -> ActorRecovered:
    return ActorRecovered(name, 5, tasks, node=node, **more)  # type: ignore[arg-type]


def test_a_restarted_coordinator_leaves_a_moved_task_where_the_user_wants_it() -> None:
    task = TaskId(0, 0)
    wishes = Wishes({task: "stream/2"}, frozenset({"stream/1", "stream/2"}))
    actors = found("stream/1", "a", frozenset({TaskId(0, 1)})), found("stream/2", "b", TASKS - {TaskId(0, 1)})
    machine, _ = recovered(wishes, *actors)
    assert machine.moving == {}
    assert machine.placement[task] == "stream/2"
    without, _ = recovered(NO_WISHES, *actors)
    assert without.moving


def test_a_restarted_coordinator_continues_a_move_that_is_warmed_up() -> None:
    task = TaskId(0, 0)
    wishes = Wishes({task: "stream/2"}, frozenset({"stream/1", "stream/2"}))
    mine, others = frozenset({task, TaskId(0, 1)}), frozenset({TaskId(0, 2), TaskId(0, 3)})
    _, out = recovered(
        wishes, found("stream/1", "a", mine), found("stream/2", "b", others, standbys=frozenset({task}), lags={task: 0})
    )
    last = {it.actor_id: it for it in out if isinstance(it, AssignTasks)}
    assert task not in last["stream/1"].tasks


def test_after_a_restart_a_wish_among_other_actors_does_not_count() -> None:
    wishes = Wishes({TaskId(0, 0): "stream/2"}, frozenset({"stream/1", "stream/2", "stream/3"}))
    mine, others = frozenset({TaskId(0, 0), TaskId(0, 1)}), frozenset({TaskId(0, 2), TaskId(0, 3)})
    machine, out = recovered(wishes, found("stream/1", "a", mine), found("stream/2", "b", others))
    assert SetWishes(NO_WISHES) in out
    assert not machine.moving


def test_a_restarted_coordinator_replaces_an_actor_whose_restart_was_begun() -> None:
    _, out = recovered(
        NO_WISHES, found("stream/1", "a", frozenset({TaskId(0, 0)}), stopping=True), found("stream/2", "b", TASKS)
    )
    assert StopActor("stream/1") in out
    assert [it.actor_id for it in out if isinstance(it, StartActor)] == ["stream/3"]
