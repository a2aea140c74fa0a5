"""Operations of people on a running application: pause and resume, scale, drain a node, deploy, delete records,
move a task, restart an actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cluster.events import ActorsWanted, Deploy, MoveTaskRequested, RestartActorRequested

if TYPE_CHECKING:
    from tests.simulation.coordinator_process import CoordinatorProcess
    from tests.simulation.world import Cluster, World

_BAD = 0.3
"""Share of the deployed versions that fail."""


def _coordinator(world: World) -> Any:
    """Returns a coordinator that works, or None."""
    return world.choose(lambda it: [it.coordinator] if it.coordinator and it.coordinator.dispatcher else [])


def pause_or_resume(world: World) -> None:
    if coordinator := _coordinator(world):
        paused = not coordinator.cluster.paused
        world.note(f"{coordinator.cluster.name} is {'paused' if paused else 'resumed'}")
        become_paused(coordinator, paused)


def become_paused(coordinator: CoordinatorProcess, paused: bool) -> None:
    """Pauses or resumes the application, without waiting for the answer."""
    dispatcher = coordinator.dispatcher
    coordinator.spawn(coordinator.pausing.become(paused, lambda: dispatcher.up if dispatcher is not None else ()))


def scale(world: World) -> None:
    if coordinator := _coordinator(world):
        cluster = coordinator.cluster
        cluster.wanted = world.rng.randint(1, 4)
        world.note(f"{cluster.name} is to have {cluster.wanted} actors")
        coordinator.feed(ActorsWanted(cluster.wanted))


def drain_a_node(world: World) -> None:
    """Announces the end of a node, adds another, and then ends the node."""
    cluster: Cluster = world.choose(lambda it: [it])
    node, seconds = world.rng.choice(cluster.nodes), world.rng.uniform(1, 60)
    if node in cluster.draining:
        return
    world.note(f"{node} is drained for {seconds:.1f} s")
    cluster.draining[node] = world.now() + seconds
    cluster.add_node()

    def end() -> None:
        if node in cluster.draining:
            del cluster.draining[node]
            cluster.nodes.remove(node)
            world.lose_node(node)

    asyncio.get_running_loop().call_later(seconds, end)


def deploy(world: World) -> None:
    """Deploys a new version of the program, which is the same, except that it may fail as soon as it has tasks."""
    coordinator = _coordinator(world)
    if coordinator is None or not coordinator.dispatcher.machine.state.is_live:
        return
    cluster = coordinator.cluster
    generation = cluster.rollout.last + 1
    is_bad = world.rng.random() < _BAD
    if is_bad:
        cluster.bad_generations.add(generation)
    world.note(f"{cluster.name}: version {generation}{', which fails,' if is_bad else ''} is deployed")
    coordinator.feed(Deploy(generation, world.rng.choice([5.0, 20.0])))


def delete_committed_records(world: World) -> None:
    """Deletes committed records of source topics, as retention does."""
    if not world.broker.answers:
        return
    for tp, committed in sorted(world.committed().items()):
        if tp.topic in world.topics and tp not in world.broker.leaderless:
            world.broker.delete_records(tp, min(committed.offset, world.broker.log(tp).end))
    world.note("committed records of source topics are deleted")


def move_a_task(world: World) -> None:
    if coordinator := _coordinator(world):
        machine = coordinator.dispatcher.machine
        if machine.actors:
            task, to = world.rng.choice(sorted(machine.plan.partitions)), world.rng.choice(machine.actors)
            refused = machine.user_requests.refusal_of_move(task, to)
            world.note(f"a user wants task {task} on {to}{f', refused: {refused}' if refused else ''}")
            coordinator.feed(MoveTaskRequested(task, to))


def restart_an_actor(world: World) -> None:
    """A user wants another actor in the place of one that runs."""
    if (coordinator := _coordinator(world)) and coordinator.dispatcher.machine.actors:
        name = world.rng.choice(coordinator.dispatcher.machine.actors)
        refused = coordinator.dispatcher.machine.user_requests.refusal_of_restart(name)
        world.note(f"a user restarts {name}{f', refused: {refused}' if refused else ''}")
        coordinator.feed(RestartActorRequested(name))


OPERATIONS: dict[str, Callable[[World], None]] = {
    call.__name__: call for call in (
        pause_or_resume, scale, drain_a_node, deploy, delete_committed_records, move_a_task, restart_an_actor,
    )
}  # fmt: skip
