"""Roll-outs, in which a new version of the program replaces the old one: one rule at a time."""

from __future__ import annotations

import pytest

from penstock.cluster.events import (
    ActorAssigned,
    ActorFailed,
    ActorFenced,
    ActorLost,
    ActorReported,
    ActorStopped,
    ActorsWanted,
    ActorUp,
    AssignTasks,
    ClusterResized,
    Deploy,
    FenceActor,
    FindCause,
    GroupAssigned,
    KillActor,
    NoRoom,
    ProcessDied,
    SetRollout,
    SetTimer,
    StartActor,
    StopActor,
    TasksHeld,
    Timer,
    TimerFired,
)
from penstock.cluster.rollout import Hold, Rollout, RolloutPhase
from penstock.cluster.status import ApplicationState
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.coordinator_play import ALL, TASKS, Play


def on_nodes(play: Play, *nodes: str) -> list[str]:
    """Starts an actor on each node named, with all tasks running; returns their names."""
    play(ActorsWanted(len(nodes)), ClusterResized(len(nodes)), GroupAssigned(ALL))
    names = [start.actor_id for start in play.of(StartActor)]
    play(*(ActorUp(name, node) for name, node in zip(names, nodes, strict=True)))
    moves(play)
    return names


def moves(play: Play) -> int:
    """Carries out all assignments and stops. Returns the most tasks that did not run at a time, once all had run."""
    silent, once_all = 0, play.machine.state is ApplicationState.RUNNING
    while any(isinstance(it, AssignTasks | StopActor) for it in play.last):
        given, stopped = play.of(AssignTasks), play.of(StopActor)
        play(*(ActorAssigned(it.actor_id, it.epoch) for it in given), *(ActorStopped(it.actor_id) for it in stopped))
        first = play.last
        running = {task for actor in play.machine._actors.values() for task in actor.running}
        silent = max(silent, len(TASKS) - len(running)) if once_all else 0
        play(*(ActorReported(it.actor_id, it.tasks, it.epoch) for it in given))
        play.last = first + play.last
    return silent


def deployed(play: Play, *nodes: str) -> list[str]:
    """Rolls version 2 out, whose actors are up on these nodes; returns their names."""
    play(Deploy(2, 60.0))
    names = [start.actor_id for start in play.of(StartActor)]
    play(*(ActorUp(name, node) for name, node in zip(names, nodes, strict=True)))
    return names


def phase(play: Play) -> RolloutPhase:
    return play.machine.rollout.phase


def test_a_new_actor_starts_beside_each_old_one_on_its_node() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    play(Deploy(2, 60.0))
    assert {(start.generation, start.node) for start in play.of(StartActor)} == {(2, "a"), (2, "b")}
    assert play.of(SetRollout) == [SetRollout(Rollout(2, 1, 2, RolloutPhase.STARTING, watch_s=60.0))]
    assert not play.of(AssignTasks), "nothing moves before a new one is up"


def test_tasks_stay_on_their_node_move_one_by_one_and_the_old_actors_end() -> None:
    play = Play()
    old = on_nodes(play, "a", "b")
    where = {task: play.machine._actors[name].node for task, name in play.machine.placement.items()}
    new = deployed(play, "a", "b")
    assert phase(play) is RolloutPhase.MOVING
    assert moves(play) <= 2, "one for each pair of actors"
    assert set(play.machine.placement.values()) == set(new)
    assert {task: play.machine._actors[name].node for task, name in play.machine.placement.items()} == where
    assert not set(old) & set(play.machine.actors)
    assert phase(play) is RolloutPhase.WATCHING


def test_a_version_that_was_watched_for_long_enough_is_proven() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    moves(play)
    play(TimerFired(Timer.WATCHED))
    assert play.of(SetRollout) == [SetRollout(Rollout(2, 2, 2, RolloutPhase.DONE, watch_s=60.0))]


@pytest.mark.parametrize("hold", Hold)
def test_a_version_whose_tasks_are_held_is_not_watched_before_they_process_again(hold: Hold) -> None:
    play = Play()
    on_nodes(play, "a", "b")
    play(TasksHeld(hold))
    failed, _ = deployed(play, "a", "b")
    moves(play)
    assert phase(play) is RolloutPhase.WATCHING
    assert play.machine.watch_held == hold.value
    play(TimerFired(Timer.WATCHED))
    assert phase(play) is RolloutPhase.WATCHING
    play(TasksHeld(None))
    assert play.of(SetTimer) == [SetTimer(Timer.WATCHED, 60_000)]
    assert play.machine.watch_held is None
    play(ActorFailed(failed, "ValueError: bad"))
    assert phase(play) is RolloutPhase.ROLLING_BACK


def test_a_pause_while_a_version_is_watched_makes_the_watching_begin_again() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    moves(play)
    play(TasksHeld(Hold.PAUSED))
    assert play(TimerFired(Timer.WATCHED)) == [], "the time before the pause does not count"
    play(TasksHeld(None))
    assert SetTimer(Timer.WATCHED, 60_000) in play.last
    play(TimerFired(Timer.WATCHED))
    assert phase(play) is RolloutPhase.DONE


def test_a_failure_on_trial_brings_the_old_version_back_and_does_not_end_the_application() -> None:
    play = Play()
    old = on_nodes(play, "a", "b")
    failed, _ = deployed(play, "a", "b")
    under_way = play.last
    play(ActorFailed(failed, "ValueError: bad"))
    assert phase(play) is RolloutPhase.ROLLING_BACK
    assert play.machine.state.is_live
    play.last = under_way + play.last
    moves(play)
    assert set(play.machine.actors) == set(old)
    assert play.of(SetRollout)[-1].rollout == Rollout(1, 1, 2, RolloutPhase.ROLLED_BACK, "ValueError: bad", 60.0)


def test_a_failure_while_the_version_is_watched_brings_the_old_one_back_in_new_actors() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    failed, _ = deployed(play, "a", "b")
    moves(play)
    play(ActorFailed(failed, "ValueError: bad"))
    assert {start.generation for start in play.of(StartActor)} == {1}


def test_a_failure_of_a_proven_version_ends_the_application_as_ever() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    failed, _ = deployed(play, "a", "b")
    moves(play)
    play(TimerFired(Timer.WATCHED))
    play(ActorFailed(failed, "ValueError: bad"))
    assert play.machine.state is ApplicationState.PENDING_ERROR


def test_two_dead_processes_are_replaced_and_with_the_third_the_version_is_rolled_back() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    (lost, _) = deployed(play, "a", "b")
    for _ in range(2):
        play(ActorLost(lost))
        assert FindCause(2, "a") in play.last
        (lost,) = [start.actor_id for start in play.of(StartActor)]
        play(ProcessDied(2), ActorUp(lost, "a"))
        assert phase(play) is RolloutPhase.MOVING
    play(ActorLost(lost), ProcessDied(2))
    assert phase(play) is RolloutPhase.ROLLING_BACK


def test_a_node_that_is_lost_with_all_new_actors_rolls_nothing_back() -> None:
    play = Play()
    on_nodes(play, "a", "a", "a", "b")
    new = deployed(play, "a", "a", "a", "b")
    play(*map(ActorLost, new[:3]))
    assert [it for it in play.last if isinstance(it, FindCause)] == [FindCause(2, "a")] * 3
    assert phase(play) is RolloutPhase.MOVING, "nobody answers that the processes alone died"


def test_an_actor_that_dies_before_it_is_up_counts_by_the_node_on_which_it_was_to_start() -> None:
    play = Play()
    on_nodes(play, "a")
    play(Deploy(2, 60.0))
    (starting,) = [start.actor_id for start in play.of(StartActor)]
    play(ActorLost(starting))
    assert FindCause(2, "a") in play.last


def test_deaths_of_a_version_that_is_gone_or_proven_count_for_nothing() -> None:
    play = Play()
    on_nodes(play, "a")
    play(*[ProcessDied(1)] * 5)
    deployed(play, "a")
    play(*[ProcessDied(1)] * 5)
    assert phase(play) is RolloutPhase.MOVING
    play(Deploy(3, 60.0), *[ProcessDied(2)] * 5)
    assert phase(play) is not RolloutPhase.ROLLING_BACK


def test_an_old_actor_that_fails_beside_the_new_version_rolls_it_back_instead_of_ending_the_application() -> None:
    play = Play()
    old, _ = on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    play(ActorFailed(old, "DeserializationError: bad"))
    assert phase(play) is RolloutPhase.ROLLING_BACK
    assert play.machine.state.is_live
    assert play.machine.rollout.reason == (
        "an actor of version 1 failed while version 2 was on trial: DeserializationError: bad"
    )
    play(ActorFailed(play.of(StartActor)[0].actor_id, "DeserializationError: bad"))
    assert play.machine.state is ApplicationState.PENDING_ERROR, "nothing is left that could be rolled back"


def test_an_old_actor_that_the_handler_replaces_does_not_stop_the_new_version() -> None:
    play = Play()
    old, _ = on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    play(ActorFailed(old, "ValueError: bad", UncaughtExceptionResponse.REPLACE_ACTOR))
    assert phase(play) is RolloutPhase.MOVING
    assert play.machine.state.is_live


def test_a_name_that_ray_still_has_counts_as_no_loss() -> None:
    play = Play()
    on_nodes(play, "a")
    (lost,) = deployed(play, "a")
    for _ in range(5):
        play(ActorLost(lost, created=False))
        (lost,) = [start.actor_id for start in play.of(StartActor)]
    assert phase(play) is not RolloutPhase.ROLLING_BACK


def test_the_tasks_of_an_old_actor_that_is_lost_while_it_makes_room_wait_for_its_fence() -> None:
    play = Play()
    (old,) = on_nodes(play, "a")
    play(Deploy(2, 60.0))
    (new,) = [start.actor_id for start in play.of(StartActor)]
    play(NoRoom())
    play(ActorLost(old, may_write_s=32.0))
    assert [it.actor_id for it in play.of(FenceActor)] == [old]
    play(ActorUp(new, "b"))
    assert not play.of(AssignTasks), "the old actor may still write"
    play(ActorFenced(old))
    assert [it.actor_id for it in play.of(AssignTasks)] == [new]


def test_without_a_free_cpu_the_tasks_of_one_old_actor_go_to_the_other_and_it_makes_room() -> None:
    play = Play()
    old = on_nodes(play, "a", "a")
    play(Deploy(2, 60.0))
    starting = [start.actor_id for start in play.of(StartActor)]
    play(TimerFired(Timer.WAIT_FOR_ACTORS), NoRoom())
    moves(play)
    (left,) = set(play.machine.placement.values())
    assert left in old
    assert play.machine.actors == (left, *starting)
    assert SetTimer(Timer.ROOM_TAKEN, 10_000) in play.last
    assert play(NoRoom()) == [], "the new one needs some time to start"
    play(ActorUp(starting[0], "a"))
    moves(play)
    assert set(play.machine.placement.values()) == {starting[0]}


def test_an_actor_that_is_alone_ends_at_once_to_make_room() -> None:
    play = Play()
    (old,) = on_nodes(play, "a")
    play(Deploy(2, 60.0))
    assert StopActor(old) in play(NoRoom())


def test_a_version_that_is_deployed_during_a_roll_out_replaces_the_one_on_trial() -> None:
    play = Play()
    on_nodes(play, "a")
    play(Deploy(2, 60.0))
    (starting,) = [start.actor_id for start in play.of(StartActor)]
    play(Deploy(3, 60.0))
    assert KillActor(starting) in play.last
    assert {start.generation for start in play.of(StartActor)} == {3}
    assert play.machine.rollout.proven == 1


def without_tasks(play: Play) -> None:
    """Lets the group take all tasks from this cluster; its actors end."""
    play(GroupAssigned(frozenset()))
    moves(play)
    assert not play.machine.actors


def tasks_come(play: Play) -> None:
    """Lets the group give all tasks to this cluster; they run."""
    play(GroupAssigned(ALL))
    play(*(ActorUp(start.actor_id) for start in play.of(StartActor)))
    given = play.of(AssignTasks)
    play.confirm()
    play(*(ActorReported(it.actor_id, it.tasks, it.epoch) for it in given))


def test_without_tasks_a_version_takes_over_at_once_and_is_proven_once_tasks_have_run_it() -> None:
    play = Play()
    play(ClusterResized(2), GroupAssigned(frozenset()), Deploy(2, 60.0))
    assert phase(play) is RolloutPhase.WATCHING
    assert play.machine.watch_held == Hold.NO_TASKS.value
    assert not play.of(SetTimer), "without a task there is nothing to watch"
    tasks_come(play)
    assert play.of(SetTimer) == [SetTimer(Timer.WATCHED, 60_000)]
    assert play.machine.watch_held is None
    play(TimerFired(Timer.WATCHED))
    assert phase(play) is RolloutPhase.DONE


def test_a_version_that_fails_on_the_first_tasks_after_a_roll_out_without_any_is_rolled_back() -> None:
    play = Play()
    play(ClusterResized(2), GroupAssigned(frozenset()), Deploy(2, 60.0))
    (failed,) = on_nodes(play, "a")
    play(ActorFailed(failed, "ValueError: bad"))
    assert phase(play) is RolloutPhase.ROLLING_BACK
    without_tasks(play)
    assert phase(play) is RolloutPhase.ROLLED_BACK


def test_tasks_that_leave_during_a_roll_out_do_not_keep_it_from_its_end() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    without_tasks(play)
    assert phase(play) is RolloutPhase.WATCHING


def test_the_time_before_the_tasks_left_does_not_count_as_watched() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    deployed(play, "a", "b")
    moves(play)
    without_tasks(play)
    tasks_come(play)
    assert play.of(SetTimer) == [SetTimer(Timer.WATCHED, 60_000)]
