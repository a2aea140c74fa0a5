"""The coordinator's decisions about commits, one rule at a time."""

from __future__ import annotations

import pytest

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.events import (
    AcceptCommit,
    ActorAssigned,
    ActorFailed,
    ActorLost,
    ActorRecovered,
    ActorStopped,
    ActorUp,
    AssignTasks,
    ClusterResized,
    CommitFailed,
    CommitOffsets,
    CommitRequested,
    CommitSucceeded,
    GroupAssigned,
    KillActor,
    RefuseCommit,
    SetState,
    StopActor,
    StopRequested,
    TasksPlanned,
)
from penstock.cluster.status import ApplicationState
from penstock.common.ids import TaskId, TopicPartition
from tests.cluster.coordinator_play import ALL, PLAN, Play, epoch_of, offsets


@pytest.fixture
def play() -> Play:
    return Play()


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


def test_an_actor_may_commit_released_tasks_until_it_confirms_the_release_and_never_after(play: Play) -> None:
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
    assert play(CommitRequested(refused)) == [refusal], "it has got its tasks again: once is enough"


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
    play(CommitRequested(request), ActorLost("stream/1"))
    (answer,) = play(CommitFailed(request, "the broker was away"))
    assert isinstance(answer, RefuseCommit)


def test_a_final_refusal_by_kafka_ends_the_application_with_kafkas_message(play: Play) -> None:
    given = play.running()
    task = next(iter(given["stream/1"]))
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(CommitRequested(request))
    play(CommitFailed(request, "Group authorization failed", final=True))
    assert play.of(RefuseCommit) == [RefuseCommit(request, "Group authorization failed")]
    assert len(play.of(StopActor)) == 2
    play(ActorStopped("stream/1"), ActorStopped("stream/2"))
    assert (play.machine.state, play.machine.error) == (ApplicationState.ERROR, "Group authorization failed")


def test_an_actor_whose_commit_was_refused_gets_its_assignment_again_because_it_dropped_tasks(play: Play) -> None:
    given = play.running()
    epoch = play.machine._actors["stream/1"].epoch
    play(CommitRequested(CommitRequest("stream/1", epoch - 1, {})))
    (again,) = play.of(AssignTasks)
    assert again.tasks == given["stream/1"]
    assert again.epoch > epoch
    assert play.machine.state is ApplicationState.REBALANCING


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


def test_work_done_under_a_lost_session_is_not_committed_under_the_next_one(play: Play) -> None:
    given = play.running()
    (task, *_) = sorted(given["stream/1"])
    old = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 1)
    play(GroupAssigned(None), GroupAssigned(ALL))
    (refused,) = play(CommitRequested(old))  # others may have had the partition, and continued its state
    assert isinstance(refused, RefuseCommit)
    assert "session" in refused.reason
    for _ in range(2):  # of nothing, and of their tasks
        play(*(ActorAssigned(name, epoch_of(play, name)) for name in given))
    assert play.machine.placement == {task: name for name, tasks in given.items() for task in tasks}
    anew = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(task), 2)
    assert play(CommitRequested(anew)) == [CommitOffsets(anew)]


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


def test_offsets_of_a_deleted_topic_do_not_keep_a_task_from_committing_the_others(play: Play) -> None:
    (name,) = (name for name, tasks in play.running().items() if TaskId(1, 0) in tasks)
    play(TasksPlanned(PLAN.without({"stops"})))
    play(CommitRequested(CommitRequest(name, 11, offsets(TaskId(1, 0)), 1)))
    (commit,) = play.of(CommitOffsets)
    assert commit.request.offsets.keys() == {TopicPartition("words", 0)}
    play(CommitSucceeded(commit.request))
    assert [(it.request.actor_id, it.request.number) for it in play.of(AcceptCommit)] == [(name, 1)]


def test_an_earlier_actor_of_the_same_name_does_not_disturb_one_that_a_restarted_coordinator_found(play: Play) -> None:
    """The earlier actor asks under an earlier epoch, and counts its commits from another number."""
    mine = TaskId(0, 0)
    play(ActorRecovered("stream/1", 20, frozenset({mine})), ClusterResized(1), GroupAssigned(ALL))
    (zombie,) = play(CommitRequested(CommitRequest("stream/1", 7, offsets(mine), 99)))[:1]
    assert isinstance(zombie, RefuseCommit)
    assert "that of an earlier actor by the name of stream/1" in zombie.reason
    request = CommitRequest("stream/1", epoch_of(play, "stream/1"), offsets(mine), 3)
    assert CommitOffsets(request) in play(CommitRequested(request))
