"""The coordinator's decisions, one rule at a time."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.cluster.coordinator.replacements import LONGEST_BACKOFF_MS
from penstock.cluster.events import (
    ActorAssigned,
    ActorFailed,
    ActorLost,
    ActorRecovered,
    ActorReported,
    ActorStopped,
    ActorUp,
    ApplicationFailed,
    AssignTasks,
    ClusterResized,
    Event,
    GroupAssigned,
    SetState,
    SetTimer,
    StartActor,
    StopActor,
    StopRequested,
    TasksPlanned,
    Timer,
    TimerFired,
)
from penstock.cluster.status import ApplicationState
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.coordinator_play import ALL, MORE, PLAN, TASKS, Play, epoch_of

IF_THAT_LASTS = ": if that lasts, 'ray status' shows if a CPU is lacking"


@pytest.fixture
def play() -> Play:
    return Play()


def test_nothing_starts_before_both_the_assignment_and_the_cpus_are_known(play: Play) -> None:
    assert play(GroupAssigned(ALL)) == []
    assert [it.actor_id for it in (play(ClusterResized(2)), play.of(StartActor))[1]] == ["stream/1", "stream/2"]
    assert play.machine.state is ApplicationState.REBALANCING


def test_every_event_has_a_handler_and_every_timer_may_fire(play: Play) -> None:
    assert set(play.machine._handlers) == set(get_args(Event))
    for timer in Timer:
        play(TimerFired(timer))


def test_a_task_is_owned_only_with_all_its_partitions() -> None:
    without = ALL - {TopicPartition("stops", 0)}
    assert PLAN.owned(without) == TASKS - {TaskId(1, 0)}


def test_tasks_wait_for_all_actors_that_start(play: Play) -> None:
    play(ClusterResized(2), GroupAssigned(ALL))
    assert play(ActorUp("stream/1")) == []
    play(ActorUp("stream/2"))
    assert sorted(len(it.tasks) for it in play.of(AssignTasks)) == [3, 3]


def test_after_the_wait_those_that_are_up_take_all_and_a_late_one_gets_its_share_only_once_released(play: Play) -> None:
    play(ClusterResized(2), GroupAssigned(ALL), ActorUp("stream/1"))
    play(TimerFired(Timer.WAIT_FOR_ACTORS))
    (everything,) = play.of(AssignTasks)
    assert everything.tasks == TASKS
    play.confirm()
    play(ActorUp("stream/2"))
    (less,) = play.of(AssignTasks)
    assert less.actor_id == "stream/1"
    assert len(less.tasks) == 3
    play.confirm()
    (moved,) = play.of(AssignTasks)
    assert moved.actor_id == "stream/2"
    assert moved.tasks == TASKS - less.tasks


def test_running_means_every_task_reported_as_running(play: Play) -> None:
    play(ClusterResized(1), GroupAssigned(ALL), ActorUp("stream/1"))
    play.confirm()
    play(ActorReported("stream/1", TASKS - {TaskId(0, 0)}, epoch_of(play, "stream/1")))
    assert play.machine.state is ApplicationState.REBALANCING
    assert play(ActorReported("stream/1", TASKS, epoch_of(play, "stream/1"))) == [SetState(ApplicationState.RUNNING)]


def test_a_late_report_from_before_an_assignment_counts_for_nothing(play: Play) -> None:
    play.running(cpus=1)
    before = epoch_of(play, "stream/1")
    plan = TaskPlan((PLAN.subtopologies[0], MORE.subtopologies[1]))
    play(GroupAssigned(plan.reads), TasksPlanned(plan))
    play.confirm()
    assert play(ActorReported("stream/1", TASKS, before)) == [], "(1, 1) is closed, to read a topic more"
    now = epoch_of(play, "stream/1")
    assert play(ActorReported("stream/1", TASKS, now)) == [SetState(ApplicationState.RUNNING)]


def test_a_lost_actor_is_replaced_by_another_and_its_tasks_go_there(play: Play) -> None:
    given = play.running()
    play(ActorLost("stream/1"))
    assert play.of(StartActor) == [StartActor("stream/3", slot=1)]
    assert play.machine.state is ApplicationState.REBALANCING
    assert play.of(AssignTasks) == []
    play(ActorUp("stream/3"))
    (assigned,) = play.of(AssignTasks)
    assert (assigned.actor_id, assigned.tasks) == ("stream/3", given["stream/1"])


def test_losses_of_actors_that_have_not_worked_wait_longer_and_longer_but_not_for_ever(play: Play) -> None:
    play.running(cpus=1)
    delays = []
    for _ in range(12):
        (name,) = play.machine.actors
        play(ActorUp(name), ActorLost(name))
        waits = [timer.delay_ms for timer in play.of(SetTimer) if timer.timer is Timer.REPLACE_ACTORS]
        if waits:
            assert play.of(StartActor) == []
            delays += waits
            play(TimerFired(Timer.REPLACE_ACTORS))
        assert len(play.of(StartActor)) == 1
    assert delays[:4] == [1_000, 2_000, 4_000, 8_000]
    assert max(delays) == LONGEST_BACKOFF_MS


def test_an_actor_whose_tasks_have_run_is_replaced_at_once_however_often(play: Play) -> None:
    play.running(cpus=1)
    for _ in range(6):
        (name,) = play.machine.actors
        play(ActorLost(name))
        assert [it.timer for it in play.of(SetTimer)] == [Timer.WAIT_FOR_ACTORS]
        (started,) = play.of(StartActor)
        play(ActorUp(started.actor_id))
        play.confirm()
        play(ActorReported(started.actor_id, TASKS, epoch_of(play, started.actor_id)))
        assert play.machine.state is ApplicationState.RUNNING


def test_calm_forgets_the_losses(play: Play) -> None:
    play.running(cpus=1)
    for _ in range(3):
        (name,) = play.machine.actors
        play(ActorLost(name), TimerFired(Timer.FORGET_LOSSES))
        assert len(play.of(StartActor)) == 1


def test_a_late_confirmation_of_an_older_assignment_releases_nothing(play: Play) -> None:
    play.running(cpus=1)
    play(ClusterResized(2))
    play(ActorUp("stream/2"))
    (less,) = play.of(AssignTasks)
    assert play(ActorAssigned("stream/1", less.epoch - 1)) == []


def test_fewer_cpus_stop_an_actor_and_its_tasks_move_only_when_it_has_stopped(play: Play) -> None:
    given = play.running()
    play(ClusterResized(1))
    (stop,) = play.of(StopActor)
    assert play.of(AssignTasks) == []
    play(ActorStopped(stop.actor_id))
    (more,) = play.of(AssignTasks)
    assert more.tasks == TASKS
    assert more.actor_id != stop.actor_id
    assert stop.actor_id in given


def test_a_stop_ends_every_actor_and_then_the_application(play: Play) -> None:
    play.running()
    play(StopRequested())
    assert {stop.actor_id for stop in play.of(StopActor)} == {"stream/1", "stream/2"}
    play(ActorStopped("stream/1"))
    assert play.machine.state is ApplicationState.PENDING_SHUTDOWN
    assert play(ActorLost("stream/2")) == [SetState(ApplicationState.NOT_RUNNING)]
    assert play(StopRequested()) == []


def test_an_actor_that_fails_while_it_stops_makes_the_stop_an_error(play: Play) -> None:
    play.running()
    play(StopRequested(), ActorStopped("stream/2"), ActorFailed("stream/1", "boom"))
    assert play.machine.state is ApplicationState.ERROR


def test_a_failure_of_what_all_depend_on_ends_in_error(play: Play) -> None:
    play(ApplicationFailed("topic gone"))
    assert (play.machine.state, play.machine.error) == (ApplicationState.ERROR, "topic gone")


def test_after_a_restart_living_actors_keep_their_tasks_and_nothing_else_moves_until_they_confirm(play: Play) -> None:
    mine = frozenset({TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)})
    play(ActorRecovered("stream/4", 77, mine), ClusterResized(2), GroupAssigned(ALL))
    assert play.of(StartActor) == [StartActor("stream/5", slot=1)]
    play(ActorUp("stream/5"))
    assert play.of(AssignTasks) == []
    play(ActorAssigned("stream/4", 78))
    (rest,) = play.of(AssignTasks)
    assert (rest.actor_id, rest.tasks) == ("stream/5", TASKS - mine)
    assert rest.epoch > 78


def test_without_a_session_no_task_runs_and_the_application_does_not_and_the_actors_wait_for_the_next(
    play: Play,
) -> None:
    given = play.running()
    epoch = max(epoch_of(play, name) for name in given)
    play(GroupAssigned(None))
    assert play.machine.state is ApplicationState.REBALANCING
    assert [(it.actor_id, it.tasks) for it in play.of(AssignTasks)] == [(name, frozenset()) for name in given]
    assert play.of(StopActor) == []
    play.confirm()
    assert play.machine.state is ApplicationState.REBALANCING, (
        "nothing runs where it belongs, for nothing belongs to us"
    )
    play(GroupAssigned(ALL))
    assert {it.actor_id: it.tasks for it in play.of(AssignTasks)} == given
    assert all(it.epoch > epoch for it in play.of(AssignTasks))


def test_after_a_lost_session_each_task_comes_back_to_the_actor_that_had_it(play: Play) -> None:
    play.running(cpus=2)
    play(ClusterResized(3))
    play(ActorUp("stream/3"))
    while play.of(AssignTasks):
        play.confirm()
    placed = play.machine.placement
    fresh = Play()
    fresh.running(cpus=3)
    assert placed != fresh.machine.placement, "what follows would prove nothing"
    play(GroupAssigned(None))
    play.confirm()
    assert play.machine.placement == {}
    play(GroupAssigned(ALL))
    assert play.machine.placement == placed


def test_a_task_that_a_lost_session_left_with_its_actor_is_released_before_it_begins_again(play: Play) -> None:
    play.running(cpus=1)
    play(ClusterResized(2))
    play(ActorUp("stream/2"))
    (less,) = play.of(AssignTasks)
    play(GroupAssigned(None), GroupAssigned(ALL))
    assert play.of(AssignTasks) == [], "one is on its way to stream/1"
    play(ActorAssigned("stream/1", less.epoch))
    assert {it.actor_id: it.tasks for it in play.of(AssignTasks)} == {
        "stream/1": frozenset(),
        "stream/2": TASKS - less.tasks,
    }
    play.confirm()
    assert [(it.actor_id, it.tasks) for it in play.of(AssignTasks)] == [("stream/1", less.tasks)]


def test_an_actor_that_is_lost_without_a_session_is_replaced_in_the_next(play: Play) -> None:
    play.running()
    play(GroupAssigned(None))
    play.confirm()
    play(ActorLost("stream/1"), ClusterResized(2))
    assert play.of(StartActor) == []
    play(GroupAssigned(ALL))
    assert [it.actor_id for it in play.of(StartActor)] == ["stream/3"]


def test_no_task_of_ours_is_a_running_application_without_actors(play: Play) -> None:
    play.running()
    play(GroupAssigned(frozenset()))
    play(ActorStopped("stream/1"), ActorStopped("stream/2"))
    assert play.machine.actors == ()
    assert play.machine.state is ApplicationState.RUNNING


def test_an_actor_that_an_earlier_coordinator_stopped_gets_no_tasks_and_frees_its_own_when_it_has_ended(
    play: Play,
) -> None:
    play(ActorRecovered("stream/1", 7, TASKS, stopping=True))
    assert play.last == [StopActor("stream/1")], "the sender may be gone: someone must hear that it has ended"
    play(ActorRecovered("stream/2", 8, frozenset()), ClusterResized(1), GroupAssigned(ALL))
    assert [it.tasks for it in play.of(AssignTasks)] == [frozenset()]
    play.confirm()
    play(ActorStopped("stream/1"))
    (all_of_it,) = play.of(AssignTasks)
    assert (all_of_it.actor_id, all_of_it.tasks) == ("stream/2", TASKS)


def test_an_actor_that_ends_cleanly_although_nobody_stopped_it_is_replaced(play: Play) -> None:
    given = play.running()
    play(ActorStopped("stream/1"))
    (replacement,) = play.of(StartActor)
    play(ActorUp(replacement.actor_id))
    assert [it.tasks for it in play.of(AssignTasks)] == [given["stream/1"]]
    assert play.machine.state is ApplicationState.REBALANCING


def test_new_partitions_of_a_source_topic_become_tasks_while_the_others_continue(play: Play) -> None:
    given = play.running(cpus=1)
    grown = ALL | {TopicPartition("lines", 4), TopicPartition("lines", 5)}
    assert play(GroupAssigned(grown)) == [SetState(ApplicationState.REBALANCING)], "nobody reads them yet"
    assert play.machine.unplanned == grown - ALL
    plan = TaskPlan((SubtopologyTasks(0, {"lines": 6}), PLAN.subtopologies[1]))
    play(TasksPlanned(plan))
    assert not play.machine.unplanned
    (more,) = play.of(AssignTasks)
    assert more.tasks == given["stream/1"] | {TaskId(0, 4), TaskId(0, 5)}
    play.confirm()
    epoch = epoch_of(play, "stream/1")
    assert play(ActorReported("stream/1", TASKS, epoch)) == []
    assert play(ActorReported("stream/1", more.tasks, epoch)) == [SetState(ApplicationState.RUNNING)]


def test_tasks_planned_before_the_group_gives_their_partitions_wait_for_it(play: Play) -> None:
    play.running(cpus=1)
    assert play(TasksPlanned(TaskPlan((SubtopologyTasks(0, {"lines": 6}), PLAN.subtopologies[1])))) == []
    play(GroupAssigned(MORE.reads - {TopicPartition("stops", 1)}))
    (more,) = play.of(AssignTasks)
    assert {TaskId(0, 4), TaskId(0, 5)} < more.tasks


def test_a_task_that_reads_more_than_before_is_assigned_again_although_no_task_is_added(play: Play) -> None:
    given = play.running(cpus=1)
    plan = TaskPlan((PLAN.subtopologies[0], MORE.subtopologies[1]))
    play(GroupAssigned(plan.reads), TasksPlanned(plan))
    (again,) = play.of(AssignTasks)
    assert again.tasks == given["stream/1"]
    assert play.machine.state is ApplicationState.REBALANCING
    play.confirm()
    assert play(ActorReported("stream/1", TASKS, epoch_of(play, "stream/1"))) == [SetState(ApplicationState.RUNNING)]


def test_a_task_that_will_read_more_works_on_until_the_group_gives_it_the_new_partition(play: Play) -> None:
    given = play.running(cpus=1)
    plan = TaskPlan((PLAN.subtopologies[0], MORE.subtopologies[1]))
    assert play(TasksPlanned(plan)) == []
    assert play.machine.placement.keys() == given["stream/1"]
    assert play(GroupAssigned(plan.reads)) == [SetState(ApplicationState.REBALANCING)]
    assert play.machine.unplanned == {TopicPartition("stops", 1)}, "so the topics are looked at again at once"
    play(TasksPlanned(plan))
    assert [it.tasks for it in play.of(AssignTasks)] == [TASKS]


def test_a_plan_made_without_a_session_waits_for_the_group_as_well(play: Play) -> None:
    given = play.running(cpus=1)
    plan = TaskPlan((PLAN.subtopologies[0], MORE.subtopologies[1]))
    play(GroupAssigned(None))
    play.confirm()
    play(TasksPlanned(plan), GroupAssigned(ALL))
    assert [it.tasks for it in play.of(AssignTasks)] == [given["stream/1"]], "(1, 1) is read as before"
    play.confirm()
    play(GroupAssigned(plan.reads), TasksPlanned(plan))
    assert not play.machine.unplanned


def test_tasks_that_a_plan_has_no_more_go_and_the_others_stay_where_they_are(play: Play) -> None:
    play.running()
    before = play.machine.placement
    play(TasksPlanned(PLAN.without({"lines"})))
    assert {task.subtopology for send in play.of(AssignTasks) for task in send.tasks} <= {1}
    play.confirm()
    assert play.machine.placement == {task: name for task, name in before.items() if task.subtopology == 1}


def test_tasks_without_an_actor_are_reported_with_the_reason(play: Play) -> None:
    play(ClusterResized(2), GroupAssigned(ALL))
    assert play.machine.unhosted == dict.fromkeys(TASKS, f"stream/1, stream/2 are starting{IF_THAT_LASTS}")
    play(*(ActorUp(start.actor_id) for start in [StartActor("stream/1"), StartActor("stream/2")]))
    assert play.machine.unhosted == {}
    assert play.machine.placement.keys() == TASKS
    given = {it.actor_id: it.tasks for it in play.of(AssignTasks)}
    play.confirm()
    play(ActorReported("stream/1", given["stream/1"], epoch_of(play, "stream/1")))
    play(ActorLost("stream/1"))
    assert play.machine.unhosted == dict.fromkeys(given["stream/1"], f"stream/3 is starting{IF_THAT_LASTS}")
    assert play.machine.placement == dict.fromkeys(given["stream/2"], "stream/2")


def test_tasks_that_wait_between_the_replacements_of_a_crash_loop_are_reported(play: Play) -> None:
    play.running(cpus=1)
    play(ActorFailed("stream/1", "ValueError: bad\nTraceback", UncaughtExceptionResponse.REPLACE_ACTOR))
    play(ActorFailed("stream/2", "ValueError: bad\nTraceback", UncaughtExceptionResponse.REPLACE_ACTOR))
    (why,) = set(play.machine.unhosted.values())
    assert why == "stream actors keep failing; the next one is started after a pause: ValueError: bad"


def test_a_task_that_another_actor_must_release_first_is_reported(play: Play) -> None:
    play(ClusterResized(2), GroupAssigned(ALL), ActorUp("stream/1"))
    play(TimerFired(Timer.WAIT_FOR_ACTORS))
    play.confirm()
    play(ActorUp("stream/2"))
    (less,) = play.of(AssignTasks)
    assert play.machine.unhosted == dict.fromkeys(
        TASKS - less.tasks, "stream/1 has not released it yet: it moves as soon as that is done"
    )
