"""The coordinator's decisions, one rule at a time."""

from __future__ import annotations

from typing import TypeVar

import pytest

from penstock.actors.messages import ApplicationState, CommitRequest
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.events import (
    AcceptCommit,
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
    CommitFailed,
    CommitOffsets,
    CommitRequested,
    CommitSucceeded,
    Event,
    GroupAssigned,
    Instruction,
    KillActor,
    RefuseCommit,
    SetState,
    SetTimer,
    StartActor,
    StopActor,
    StopRequested,
    TasksPlanned,
    Timer,
    TimerFired,
)
from penstock.cluster.replacements import LONGEST_BACKOFF_MS
from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

T = TypeVar("T")
PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 4}), SubtopologyTasks(1, {"words": 2, "stops": 1}, stateful=True)))
ALL = frozenset(partition for partitions in PLAN.partitions.values() for partition in partitions)
TASKS = frozenset(PLAN.partitions)


class Play:
    """A coordinator and the instructions it gave."""

    def __init__(self, tasks_per_actor: int | None = None) -> None:
        self.machine = Coordinator(PLAN, tasks_per_actor, first_epoch=10)
        self.last: list[Instruction] = []

    def __call__(self, *events: Event) -> list[Instruction]:
        self.last = [instruction for event in events for instruction in self.machine.handle(event)]
        return self.last

    def of(self, kind: type[T]) -> list[T]:
        return [instruction for instruction in self.last if isinstance(instruction, kind)]

    def confirm(self) -> list[Instruction]:
        return self(*(ActorAssigned(it.actor_id, it.epoch) for it in self.of(AssignTasks)))

    def running(self, cpus: int = 2) -> dict[str, frozenset[TaskId]]:
        """Bring the application up; what each actor has."""
        self(ClusterResized(cpus), GroupAssigned(ALL))
        self(*(ActorUp(start.actor_id) for start in self.of(StartActor)))
        given = {it.actor_id: it.tasks for it in self.of(AssignTasks)}
        self.confirm()
        self(*(ActorReported(name, tasks, epoch_of(self, name)) for name, tasks in given.items()))
        assert self.machine.state is ApplicationState.RUNNING
        return given


@pytest.fixture
def play() -> Play:
    return Play()


def epoch_of(play: Play, actor: str) -> int:
    return play.machine._actors[actor].epoch


def offsets(*tasks: TaskId) -> dict[TopicPartition, tuple[int, str]]:
    return {partition: (1, "") for task in tasks for partition in PLAN.partitions[task]}


def test_nothing_starts_before_both_the_assignment_and_the_cpus_are_known(play: Play) -> None:
    assert play(GroupAssigned(ALL)) == []
    assert [it.actor_id for it in (play(ClusterResized(2)), play.of(StartActor))[1]] == ["stream/1", "stream/2"]
    assert play.machine.state is ApplicationState.REBALANCING


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
    play(ActorLost("stream/1", "killed"))
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
        play(ActorUp(name), ActorLost(name, "killed"))
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
        play(ActorLost(name, "killed"))
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
        play(ActorLost(name, "killed"), TimerFired(Timer.FORGET_LOSSES))
        assert len(play.of(StartActor)) == 1


def test_a_commit_under_the_current_assignment_is_accepted_when_kafka_has_it(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    assert play(CommitRequested(request)) == [CommitOffsets(request)]
    assert play(CommitSucceeded(request)) == [AcceptCommit(request)]


def test_commits_of_old_assignments_strangers_and_foreign_partitions_are_refused(play: Play) -> None:
    given = play.running()
    epoch = epoch_of(play, "stream/1")
    mine, other = next(iter(given["stream/1"])), next(iter(given["stream/2"]))
    for request, why in [
        (CommitRequest("stream/1", epoch - 1, offsets(mine), 1), "is stale"),
        (CommitRequest("stream/9", epoch, offsets(mine), 1), "no longer part"),
        (CommitRequest("stream/1", epoch, offsets(mine, other), 2), "is not read by a task"),
    ]:
        refusal = play(CommitRequested(request))[0]
        assert isinstance(refusal, RefuseCommit)
        assert why in refusal.reason


def test_what_an_actor_releases_it_may_commit_until_it_confirmed_and_never_after(play: Play) -> None:
    given = play.running(cpus=1)
    old = epoch_of(play, "stream/1")
    play(ClusterResized(2))
    play(ActorUp("stream/2"))
    (less,) = play.of(AssignTasks)
    released = next(iter(given["stream/1"] - less.tasks))
    for number, epoch in enumerate((old, less.epoch)):
        (answer,) = play(CommitRequested(CommitRequest("stream/1", epoch, offsets(released), number)))
        assert isinstance(answer, CommitOffsets)
    play(ActorAssigned("stream/1", less.epoch))
    for number, epoch in enumerate((old, less.epoch), start=2):
        refusal = play(CommitRequested(CommitRequest("stream/1", epoch, offsets(released), number)))[0]
        assert isinstance(refusal, RefuseCommit)


def test_commits_for_partitions_that_the_group_took_away_are_refused(play: Play) -> None:
    given = play.running(cpus=1)
    epoch = play.machine._actors["stream/1"].epoch
    play(GroupAssigned(ALL - PLAN.partitions[TaskId(0, 0)]))
    assert TaskId(0, 0) in given["stream/1"]
    (answer,) = play(CommitRequested(CommitRequest("stream/1", epoch, offsets(TaskId(0, 0)))))
    assert isinstance(answer, RefuseCommit)
    assert "not assigned to this cluster" in answer.reason


def test_a_commit_that_is_asked_for_again_is_answered_with_what_became_of_it(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    epoch = epoch_of(play, "stream/1")
    first = CommitRequest("stream/1", epoch, offsets(task), 1)
    assert play(CommitRequested(first)) == [CommitOffsets(first)]
    assert play(CommitRequested(first)) == [], "Kafka has it: its answer is for both"
    assert play(CommitSucceeded(first)) == [AcceptCommit(first)]
    play(GroupAssigned(ALL - PLAN.partitions[task]))
    play.confirm()
    assert play(CommitRequested(first)) == [AcceptCommit(first)], "Kafka has it, whatever came after"
    assert play.of(AssignTasks) == []
    refused = CommitRequest("stream/1", epoch, offsets(task), 2)
    (refusal, *_) = play(CommitRequested(refused))
    assert isinstance(refusal, RefuseCommit)
    play.confirm()
    assert play(CommitRequested(refused)) == [refusal], "it has been told its tasks again: once is enough"


def test_a_commit_superseded_by_a_later_one_is_not_made_any_more_and_changes_nothing(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    epoch = epoch_of(play, "stream/1")
    older, later = (CommitRequest("stream/1", epoch, offsets(task), number) for number in (1, 2))
    play(CommitRequested(older))
    assert play(CommitRequested(later)) == [CommitOffsets(later)]
    for late in (CommitRequested(older), CommitFailed(older, "the broker was away")):
        (answer,) = play(late)
        assert isinstance(answer, RefuseCommit)
        assert "superseded" in answer.reason
    assert play(CommitSucceeded(older)) == [AcceptCommit(older)], "whoever waits for it must hear the truth"
    assert play(CommitSucceeded(later)) == [AcceptCommit(later)]
    assert play.machine.state is ApplicationState.RUNNING


def test_a_commit_that_failed_is_judged_again_before_it_is_repeated(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(CommitRequested(request))
    assert play(CommitFailed(request, "the broker was away")) == [CommitOffsets(request)]
    play(GroupAssigned(ALL - PLAN.partitions[task]))
    (answer, *_) = play(CommitFailed(request, "the broker was away"))
    assert isinstance(answer, RefuseCommit)
    assert "not assigned to this cluster" in answer.reason


def test_the_commit_of_an_actor_that_was_lost_meanwhile_is_answered_but_not_repeated(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(CommitRequested(request), ActorLost("stream/1", "killed"))
    (answer,) = play(CommitFailed(request, "the broker was away"))
    assert isinstance(answer, RefuseCommit)


def test_what_kafka_refuses_for_good_ends_the_application_with_kafkas_words(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(CommitRequested(request))
    play(CommitFailed(request, "Group authorization failed", final=True))
    assert play.of(RefuseCommit) == [RefuseCommit(request, "Group authorization failed")]
    assert len(play.of(StopActor)) == 2
    play(ActorStopped("stream/1"), ActorStopped("stream/2"))
    assert (play.machine.state, play.machine.error) == (ApplicationState.ERROR, "Group authorization failed")


def test_an_actor_that_was_refused_a_commit_is_told_its_tasks_again_because_it_dropped_some(play: Play) -> None:
    given = play.running()
    epoch = play.machine._actors["stream/1"].epoch
    play(CommitRequested(CommitRequest("stream/1", epoch - 1, {})))
    (again,) = play.of(AssignTasks)
    assert again.tasks == given["stream/1"]
    assert again.epoch > epoch
    assert play.machine.state is ApplicationState.REBALANCING


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
    assert play(ActorLost("stream/2", "killed")) == [SetState(ApplicationState.NOT_RUNNING)]
    assert play(StopRequested()) == []


def test_a_stop_during_the_start_kills_what_has_nothing_to_commit(play: Play) -> None:
    play(ClusterResized(2), GroupAssigned(ALL), StopRequested())
    assert {kill.actor_id for kill in play.of(KillActor)} == {"stream/1", "stream/2"}
    assert play.machine.state is ApplicationState.NOT_RUNNING
    assert play(ActorUp("stream/1")) == []


def test_a_failed_task_stops_the_others_with_a_commit_and_ends_in_error_with_its_text(play: Play) -> None:
    play.running()
    play(ActorFailed("stream/1", "ValueError: bad"))
    assert play.of(KillActor) == [KillActor("stream/1")]
    assert play.of(StopActor) == [StopActor("stream/2")]
    assert play.machine.state is ApplicationState.PENDING_ERROR
    assert play(ActorStopped("stream/2")) == [SetState(ApplicationState.ERROR, "ValueError: bad")]


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


def test_what_was_done_under_a_lost_session_is_not_committed_under_the_next(play: Play) -> None:
    given = play.running()
    (task, *_) = sorted(given["stream/1"])
    old = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(GroupAssigned(None), GroupAssigned(ALL))
    (refused,) = play(CommitRequested(old))  # others may have had the partition, and gone on with its state
    assert isinstance(refused, RefuseCommit)
    assert "session" in refused.reason
    for _ in range(2):  # of nothing, and of their tasks
        play(*(ActorAssigned(name, epoch_of(play, name)) for name in given))
    assert play.machine.placement == {task: name for name, tasks in given.items() for task in tasks}
    anew = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 2)
    assert play(CommitRequested(anew)) == [CommitOffsets(anew)]


def test_a_task_that_a_lost_session_left_with_its_actor_is_let_go_of_before_it_is_begun_anew(play: Play) -> None:
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
    play(ActorLost("stream/1", "killed"), ClusterResized(2))
    assert play.of(StartActor) == []
    play(GroupAssigned(ALL))
    assert [it.actor_id for it in play.of(StartActor)] == ["stream/3"]


def test_an_application_without_a_session_can_be_stopped(play: Play) -> None:
    given = play.running()
    play(GroupAssigned(None))
    play(StopRequested())
    assert [it.actor_id for it in play.of(StopActor)] == list(given)
    (task, *_) = sorted(given["stream/1"])
    play(CommitRequested(CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)))
    assert len(play.of(RefuseCommit)) == 1
    play(*(ActorStopped(name) for name in given))
    assert play.machine.state is ApplicationState.NOT_RUNNING


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
    assert play.last == [StopActor("stream/1")], "whoever told it may be gone: someone must hear that it has ended"
    play(ActorRecovered("stream/2", 8, frozenset()), ClusterResized(1), GroupAssigned(ALL))
    assert [it.tasks for it in play.of(AssignTasks)] == [frozenset()]
    play.confirm()
    play(ActorStopped("stream/1"))
    (all_of_it,) = play.of(AssignTasks)
    assert (all_of_it.actor_id, all_of_it.tasks) == ("stream/2", TASKS)


def test_an_actor_that_ends_in_good_order_though_nobody_stopped_it_is_replaced(play: Play) -> None:
    given = play.running()
    play(ActorStopped("stream/1"))
    (replacement,) = play.of(StartActor)
    play(ActorUp(replacement.actor_id))
    assert [it.tasks for it in play.of(AssignTasks)] == [given["stream/1"]]
    assert play.machine.state is ApplicationState.REBALANCING


MORE = TaskPlan((SubtopologyTasks(0, {"lines": 6}), SubtopologyTasks(1, {"words": 2, "stops": 2}, stateful=True)))


def test_new_partitions_of_a_source_topic_become_tasks_while_the_others_go_on(play: Play) -> None:
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


def test_a_task_that_reads_more_than_before_is_assigned_anew_although_no_task_is_added(play: Play) -> None:
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


def test_what_a_task_has_read_of_a_topic_that_is_gone_does_not_keep_it_from_committing_the_rest(play: Play) -> None:
    (name,) = (name for name, tasks in play.running().items() if TaskId(1, 0) in tasks)
    play(TasksPlanned(PLAN.without({"stops"})))
    play(CommitRequested(CommitRequest(name, 11, offsets(TaskId(1, 0)), 1)))
    (commit,) = play.of(CommitOffsets)
    assert commit.request.offsets.keys() == {TopicPartition("words", 0)}
    play(CommitSucceeded(commit.request))
    assert [(it.request.actor_id, it.request.number) for it in play.of(AcceptCommit)] == [(name, 1)]
