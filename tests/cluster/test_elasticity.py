"""The choice of the stream actors that end, and the draining of nodes: one rule at a time."""

from __future__ import annotations

from penstock.cluster.events import (
    ActorAssigned,
    ActorReported,
    ActorStopped,
    ActorsWanted,
    ActorUp,
    AssignTasks,
    ClusterResized,
    GroupAssigned,
    KillActor,
    NodesDraining,
    StartActor,
    StopActor,
)
from penstock.cluster.scaling.elasticity import LEAVE_S
from penstock.cluster.status import ApplicationState
from tests.cluster.coordinator_play import ALL, TASKS, Play


def on_nodes(play: Play, *nodes: str) -> list[str]:
    """Starts an actor on each node named, with all tasks running; returns their names."""
    play(ActorsWanted(len(nodes)), ClusterResized(1), GroupAssigned(ALL))
    names = [start.actor_id for start in play.of(StartActor)]
    play(*(ActorUp(name, node) for name, node in zip(names, nodes, strict=True)))
    settle(play)
    return names


def settle(play: Play) -> None:
    """Confirms every assignment; its tasks run."""
    while given := play.of(AssignTasks):
        message = [ActorReported(it.actor_id, it.tasks, it.epoch) for it in given]
        play(*(ActorAssigned(it.actor_id, it.epoch) for it in given), *message)
    assert play.machine.state is ApplicationState.RUNNING


def test_an_actor_that_is_alone_on_its_node_ends_first_so_that_the_node_gets_free() -> None:
    play = Play()
    names = on_nodes(play, "a", "b", "b", "c", "c")
    play(ActorsWanted(4))
    assert play.of(StopActor) == [StopActor(names[0])]
    play(ActorStopped(names[0]))
    settle(play)
    # One of the two nodes with two actors is emptied, instead of one actor ended on either.
    play(ActorsWanted(2))
    ended = {it.actor_id for it in play.of(StopActor)}
    assert ended in ({names[1], names[2]}, {names[3], names[4]})


def test_actors_that_are_still_starting_are_ended_before_running_ones() -> None:
    play = Play()
    names = on_nodes(play, "a", "b")
    (late,) = [it.actor_id for it in play(ActorsWanted(3)) if isinstance(it, StartActor)]
    assert play(ActorsWanted(2)) == [KillActor(late)]
    assert set(play.machine.actors) == set(names)


def test_a_drained_node_is_left_when_another_actor_is_up() -> None:
    play = Play()
    leaving, staying = on_nodes(play, "a", "b")
    (other,) = [it.actor_id for it in play(NodesDraining({"a": 60.0})) if isinstance(it, StartActor)]
    assert not play.of(AssignTasks), "until then everything runs on"
    assert not play.of(StopActor)
    assert play(NodesDraining({"a": 58.0})) == []
    play(ActorUp(other, "b"))
    assert {it.actor_id: it.tasks for it in play.of(AssignTasks)} == {leaving: frozenset()}
    (let_go,) = play.of(AssignTasks)
    play(ActorAssigned(leaving, let_go.epoch))
    assert play.of(StopActor) == [StopActor(leaving)]
    settle(play)
    assert set(play.machine.placement.values()) == {staying, other}
    assert play.machine.placement.keys() == TASKS


def test_with_little_time_left_an_actor_stops_whatever_it_has() -> None:
    play = Play()
    leaving, _ = on_nodes(play, "a", "b")
    play(NodesDraining({"a": LEAVE_S + 1}))
    assert play.of(StopActor) == []
    play(NodesDraining({"a": LEAVE_S}))
    assert play.of(StopActor) == [StopActor(leaving)]
    assert play(NodesDraining({"a": LEAVE_S - 2})) == []


def test_a_drain_that_is_called_off_is_forgotten() -> None:
    play = Play()
    names = on_nodes(play, "a", "b")
    (other,) = [it.actor_id for it in play(NodesDraining({"a": None})) if isinstance(it, StartActor)]
    assert play.machine.hindrance == "actors leave a node that is drained"
    assert play(NodesDraining({})) == [KillActor(other)]
    assert play.machine.hindrance is None
    assert set(play.machine.placement.values()) == set(names)


def test_a_node_that_only_others_have_actors_on_is_nothing_to_us() -> None:
    play = Play()
    on_nodes(play, "a", "b")
    assert play(NodesDraining({"c": 10.0})) == []
    assert play.machine.hindrance is None
