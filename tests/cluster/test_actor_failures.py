"""The coordinator's reaction to an actor that fails, by the answer of the uncaught exception handler."""

from __future__ import annotations

import pytest

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorFailed,
    ActorFenced,
    ActorStopped,
    ClusterResized,
    FenceActor,
    KillActor,
    SetTimer,
    StartActor,
    StopActor,
    StopRequested,
    Timer,
    TimerFired,
)
from penstock.cluster.status import ApplicationState
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.coordinator_play import PLAN, TASKS, Play

REPLACE = UncaughtExceptionResponse.REPLACE_ACTOR


def failed(number: int, response: UncaughtExceptionResponse = REPLACE) -> ActorFailed:
    return ActorFailed(f"stream/{number}", "ValueError: bad\nand a traceback", response)


@pytest.fixture
def play() -> Play:
    return Play()


def test_an_actor_that_failed_is_killed_and_replaced_and_the_others_continue(play: Play) -> None:
    play.running()
    play(failed(1))
    assert play.of(KillActor) == [KillActor("stream/1")]
    assert [start.actor_id for start in play.of(StartActor)] == ["stream/3"]
    assert play.of(StopActor) == []
    assert play.machine.state is ApplicationState.REBALANCING
    assert play.machine.error is None


def test_the_next_one_waits_though_its_tasks_had_run(play: Play) -> None:
    play.running()
    play(failed(1))
    assert play.machine.waits_for is None
    play(failed(2))
    assert play.of(StartActor) == []
    assert SetTimer(Timer.REPLACE_ACTORS, 1_000) in play.of(SetTimer)
    assert play.machine.waits_for is not None
    assert play.machine.waits_for.endswith("ValueError: bad"), "one line of it"
    play(TimerFired(Timer.REPLACE_ACTORS))
    assert len(play.of(StartActor)) == 1
    assert play.machine.waits_for is None


def test_exactly_once_its_tasks_go_elsewhere_when_it_is_fenced(play: Play) -> None:
    play.machine = Coordinator(PLAN, None, first_epoch=10, exactly_once=True)
    play.running()
    play(failed(1))
    assert [type(it) for it in play.last if isinstance(it, KillActor | FenceActor)] == [KillActor, FenceActor]
    assert "stream/1" not in set(play.machine.placement.values())
    moved = TASKS - play.machine.placement.keys()
    assert moved
    play(ActorFenced("stream/1"))
    assert play.machine.state is ApplicationState.REBALANCING


def test_one_too_many_that_fails_while_it_stops_is_just_gone(play: Play) -> None:
    play.running()
    play(ClusterResized(1))
    (stop,) = play.of(StopActor)
    play(ActorFailed(stop.actor_id, "boom", REPLACE))
    assert play.of(StartActor) == []
    assert play.machine.state.is_live


def test_a_stop_during_which_an_actor_fails_is_an_error_regardless_of_the_handler(play: Play) -> None:
    play.running()
    play(StopRequested(), ActorStopped("stream/2"), failed(1))
    assert play.machine.state is ApplicationState.ERROR


@pytest.mark.parametrize("response", [it for it in UncaughtExceptionResponse if it is not REPLACE])
def test_to_shut_down_client_or_application_ends_this_one_in_error(
    play: Play, response: UncaughtExceptionResponse
) -> None:
    play.running()
    play(failed(1, response), ActorStopped("stream/2"))
    assert play.machine.state is ApplicationState.ERROR


@pytest.mark.parametrize("in_doubt", [True, False])
def test_exactly_once_a_stopped_actor_whose_last_commit_is_in_doubt_is_fenced(play: Play, in_doubt: bool) -> None:
    play.machine = Coordinator(PLAN, None, first_epoch=10, exactly_once=True)
    given = play.running()
    play(ClusterResized(1))
    (stop,) = play.of(StopActor)
    name = stop.actor_id
    play(ActorStopped(name, in_doubt))
    assert play.of(FenceActor) == ([FenceActor(name, int(name[-1]))] if in_doubt else [])
    assert bool(given[name] & play.machine.unhosted.keys()) is in_doubt
    play.confirm()
    play(ActorFenced(name))
    assert not play.machine.unhosted
    assert play.of(StartActor) == [], "it was one too many"
