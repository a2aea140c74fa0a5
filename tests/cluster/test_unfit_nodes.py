"""A node whose disk fails loses its actors' work, not the application, while another node can take it."""

from __future__ import annotations

import errno

import pytest

from penstock.actors.failure import is_of_the_disk
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import (
    ActorFailed,
    ActorLost,
    ActorReported,
    ActorUp,
    AssignTasks,
    ClusterResized,
    FenceActor,
    GroupAssigned,
    KillActor,
    SetTimer,
    StartActor,
    StopActor,
    Timer,
    TimerFired,
)
from penstock.cluster.scaling.unfit_nodes import FIRST_UNFIT_MS, LONGEST_UNFIT_MS, UnfitNodes
from penstock.cluster.status import ApplicationState
from penstock.common.errors import StateStoreDiskError
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.state.disk.rocksdb_errors import translated
from tests.cluster.coordinator_play import ALL, PLAN, TASKS, Play, epoch_of

FULL = "StateStoreDiskError: the stores cannot be written: no space left on the device\nand more"
TWO_NODES = ClusterResized(4, {}, {"a": 2, "b": 2})


def failed(number: int, node: str) -> ActorFailed:
    return ActorFailed(f"stream/{number}", FULL, disk_of=node)


def bring_up(play: Play, resized: ClusterResized, nodes: str) -> None:
    play(resized, GroupAssigned(ALL))
    play(*(ActorUp(start.actor_id, node) for start, node in zip(play.of(StartActor), nodes, strict=True)))
    given = {it.actor_id: it.tasks for it in play.of(AssignTasks)}
    play.confirm()
    play(*(ActorReported(name, tasks, epoch_of(play, name)) for name, tasks in given.items()))
    assert play.machine.state is ApplicationState.RUNNING


@pytest.fixture
def play() -> Play:
    play = Play()
    bring_up(play, TWO_NODES, "aabb")
    return play


def hosts(play: Play) -> set[str]:
    return {play.machine.node_of(name) for name in play.machine.placement.values()}


def test_the_tasks_of_a_node_whose_disk_fails_go_to_another_and_the_application_continues(play: Play) -> None:
    play(failed(1, "a"))
    assert play.of(KillActor) == [KillActor("stream/1")]
    assert play.of(StartActor) == [], "the other node's CPUs have an actor each"
    assert play.of(SetTimer) == [SetTimer(Timer.TRY_DISKS, FIRST_UNFIT_MS)]
    play.confirm()
    play.confirm()
    assert play.machine.state is ApplicationState.REBALANCING
    assert hosts(play) == {"b"}
    assert play.machine.placement.keys() == TASKS
    assert play.machine.unfit is not None
    assert "node a: StateStoreDiskError: the stores cannot be written: no space left" in play.machine.unfit
    assert "and more" not in play.machine.unfit


def test_the_other_actors_of_the_node_leave_it_too(play: Play) -> None:
    play(failed(1, "a"))
    stopped: list[StopActor] = []
    while assigned := play.of(AssignTasks):
        play.confirm()
        stopped += play.of(StopActor)
        reports = [ActorReported(it.actor_id, it.tasks, it.epoch, dict.fromkeys(it.standbys, 0)) for it in assigned]
        play.last += [instruction for report in reports for instruction in play.machine.handle(report)]
        stopped += play.of(StopActor)
    assert set(stopped) == {StopActor("stream/2")}
    assert hosts(play) == {"b"}


def test_actors_that_are_missing_start_on_other_nodes_until_the_disk_is_tried_again() -> None:
    play = Play()
    bring_up(play, ClusterResized(2, {}, {"a": 1, "b": 1}), "ab")
    play(failed(1, "a"))
    assert play.of(StartActor) == []
    play(ClusterResized(3, {}, {"a": 1, "b": 1, "c": 1}))
    assert [(it.actor_id, it.avoid) for it in play.of(StartActor)] == [("stream/3", frozenset("a"))]
    play(TimerFired(Timer.TRY_DISKS))
    assert play.machine.unfit is None
    assert play.of(KillActor) == [KillActor("stream/3")], "it may have found no room on other nodes"
    assert [it.avoid for it in play.of(StartActor)] == [frozenset(), frozenset()]


def test_an_unfit_node_is_tried_at_once_when_the_last_other_node_is_lost() -> None:
    play = Play()
    bring_up(play, ClusterResized(2, {}, {"a": 1, "b": 1}), "ab")
    play(failed(1, "a"))
    play.confirm()
    play(ActorLost("stream/2"), ClusterResized(1, {}, {"a": 1}))
    assert play.machine.unfit is None
    waiting, started = play.of(StartActor)
    assert (waiting.avoid, started.avoid) == (frozenset("a"), frozenset())
    assert play.of(KillActor) == [KillActor(waiting.actor_id)]


def test_without_another_node_the_application_fails_or_the_handler_decides() -> None:
    for resized in (ClusterResized(2), ClusterResized(2, {}, {"a": 2, "head": 0})):
        play = Play()
        bring_up(play, resized, "aa")
        play(failed(1, "a"))
        assert play.machine.state is ApplicationState.PENDING_ERROR
        assert play.machine.error == FULL
    play = Play()
    bring_up(play, ClusterResized(2, {}, {"a": 2}), "aa")
    play(ActorFailed("stream/1", FULL, UncaughtExceptionResponse.REPLACE_ACTOR, "a"))
    assert play.machine.state is ApplicationState.REBALANCING


def test_when_the_last_disk_fails_too_the_application_ends(play: Play) -> None:
    play(failed(1, "a"), failed(2, "a"))
    assert play.machine.state.is_live
    play(failed(3, "b"))
    assert play.machine.state is ApplicationState.PENDING_ERROR


def test_exactly_once_its_tasks_go_elsewhere_when_it_is_fenced() -> None:
    play = Play()
    play.machine = Coordinator(PLAN, None, first_epoch=10, exactly_once=True)
    bring_up(play, TWO_NODES, "aabb")
    play(failed(1, "a"))
    assert [it.actor_id for it in play.of(FenceActor)] == ["stream/1"]


def test_a_disk_that_fails_again_is_tried_ever_more_seldom_and_a_node_that_is_gone_is_forgotten() -> None:
    nodes = UnfitNodes()
    nodes.resized({"a": 2, "b": 1})
    waits = []
    for _ in range(7):
        (timer,) = nodes.failed("a", FULL)
        assert nodes.failed("a", FULL) == [timer], "another actor of the node counts for nothing"
        waits.append(timer.delay_ms)
        nodes.try_again()
    assert waits == [FIRST_UNFIT_MS * times for times in (1, 2, 4, 8, 16)] + [LONGEST_UNFIT_MS] * 2
    nodes.failed("a", FULL)
    assert (nodes.nodes, nodes.cpus) == (frozenset("a"), 2)
    nodes.resized({"b": 1})
    assert (nodes.nodes, nodes.cpus, nodes.notice) == (frozenset(), 0, None)


@pytest.mark.parametrize(
    "text",
    [
        "IO error: No space left on device: While appending to file: /s/000012.log: No space left on device",
        "IO error: While open a file for appending: /s/0_0/000004.log: Read-only file system",
        "IO error: While fsync: /s/000012.log: Input/output error",
        "IO error: Disk quota exceeded: While appending to file: /s/000012.log: Disk quota exceeded",
    ],
)
def test_rocksdbs_errors_of_a_disk_are_recognised(text: str) -> None:
    error = translated(Exception(text), "the stores in /s")
    assert isinstance(error, StateStoreDiskError)
    assert is_of_the_disk(error)


def test_of_other_errors_the_number_decides() -> None:
    for number in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT):
        assert is_of_the_disk(OSError(number, "x"))
    assert not is_of_the_disk(OSError(errno.EACCES, "x"))
    assert not is_of_the_disk(ValueError("No space left on device"))
    assert not is_of_the_disk(translated(Exception("IO error: No such file or directory"), "the stores"))
