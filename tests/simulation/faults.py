"""The faults that may befall a cluster, each drawn from the seed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from random import Random

from penstock.common.ids import TopicPartition
from tests.simulation.world import World

LONG_S = [(0.1, 3.0), (3.0, 30.0), (30.0, 60.0), (60.0, 130.0), (130.0, 200.0), (200.0, 400.0)]


def drawn_time(world: World, most: int = len(LONG_S)) -> float:
    """Shorter and longer than each time-out."""
    return world.rng.uniform(*world.rng.choice(LONG_S[:most]))


def kill_an_actor(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        world.note(f"kill {actor.name}")
        actor.end()


def kill_an_actor_and_lose_its_disk(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        lose_node(world, actor.node)


def lose_node(world: World, node: str) -> None:
    world.note(f"lose {node}")
    for cluster in world.clusters:
        for actor in list(cluster.actors.values()):
            if actor.node == node:
                actor.end()
        if node in cluster.nodes:
            shutil.rmtree(world.disk_of(cluster, node), ignore_errors=True)


def freeze_an_actor(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        seconds = drawn_time(world, 4)
        world.note(f"freeze {actor.name} for {seconds:.1f} s")
        actor.freeze(seconds)


def cut_an_actor_from_ray(world: World) -> None:
    """Its node is cut off from the others, not from Kafka; Ray may take it for dead."""
    if actor := world.choose(lambda it: it.living()):
        seconds = drawn_time(world, 4)
        world.note(f"cut {actor.name} from Ray for {seconds:.1f} s")
        actor.cut_from_ray(seconds)
        if world.rng.random() < 0.6:
            ghost_s = drawn_ghost_s(world)
            world.note(f"{actor.name} is taken for dead, and lives for {ghost_s:.1f} s")
            actor.be_taken_for_dead(ghost_s)


def drawn_ghost_s(world: World) -> float:
    """At least once, no ghost: nothing would keep it from writing old values behind those of its successor."""
    return world.rng.uniform(0, 120) if world.exactly_once else 0.0


def cut_an_actor_from_the_broker(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        seconds = drawn_time(world)
        world.note(f"cut {actor.name} from the broker for {seconds:.1f} s")
        actor.cut_from_broker(seconds)


def cut_a_coordinator_from_the_broker(world: World) -> None:
    if coordinator := world.choose(lambda it: [it.coordinator] if it.coordinator else []):
        seconds = drawn_time(world, 4)
        world.note(f"cut a coordinator from the broker for {seconds:.1f} s")
        coordinator.cut_from_broker_until = world.now() + seconds


def restart_a_coordinator(world: World) -> None:
    if cluster := world.choose(lambda it: [it] if it.coordinator else []):
        cluster.end_coordinator()
        seconds = world.rng.choice([0.0, world.rng.uniform(0, 5), drawn_time(world, 3)])

        def start() -> None:
            if cluster.coordinator is None:
                cluster.start_coordinator(restarted=True)

        asyncio.get_running_loop().call_later(seconds, start)


def broker_outage(world: World) -> None:
    if world.broker.down:
        return
    seconds = drawn_time(world)
    world.note(f"no broker for {seconds:.1f} s")
    world.broker.down = True
    asyncio.get_running_loop().call_later(seconds, _broker_back, world)


def _broker_back(world: World) -> None:
    if world.broker.down:
        world.note("the broker is back")
        world.broker.down = False


def lose_a_leader(world: World) -> None:
    """Of one partition. Not of topics that are joined: a task goes on without the other side, as it may. At least once,
    not of results whose rows are deleted at the same moment: if the deletion reaches the changelog, and the result
    does not reach its topic, a crash loses the result (docs/RELIABILITY.md, "What at least once means for state")."""
    if not world.broker.answers:
        return
    spared = {*world.program.joined, *(() if world.exactly_once else world.program.let_go)}
    counts = {topic: count for topic, count in world.broker.topics().items() if topic not in spared}
    partitions = [TopicPartition(topic, n) for topic, count in sorted(counts.items()) for n in range(count)]
    partition, seconds = world.rng.choice(partitions), drawn_time(world)
    world.note(f"{partition} has no leader for {seconds:.1f} s")
    world.broker.leaderless.add(partition)
    asyncio.get_running_loop().call_later(seconds, world.broker.leaderless.discard, partition)


def abort_transactions(world: World) -> None:
    if world.broker.answers:
        world.note("open transactions are aborted")
        world.broker.expire_transactions()


def rebalance(world: World) -> None:
    if world.broker.answers:
        world.note("the group rebalances")
        world.spawn(world.group.rebalance())


def resize(world: World) -> None:
    cluster = world.choose(lambda it: [it])
    cluster.cpus = world.rng.randint(1, 4)
    world.note(f"{cluster.name} has {cluster.cpus} CPUs")


FAULTS: dict[str, Callable[[World], None]] = {
    call.__name__: call
    for call in (
        kill_an_actor, kill_an_actor_and_lose_its_disk, freeze_an_actor, cut_an_actor_from_ray,
        cut_an_actor_from_the_broker, cut_a_coordinator_from_the_broker, restart_a_coordinator, broker_outage,
        lose_a_leader, abort_transactions, rebalance, resize,
    )
}  # fmt: skip
Weights = dict[str, int]
"""The weight of each fault beside the others."""


def drawn_weights(rng: Random) -> Weights:
    """Some faults never come in a run, and others all the more: so they meet more often than if each had its turn."""
    while True:
        weights = {name: weight for name in FAULTS if (weight := rng.choice([0, 0, 1, 1, 4]))}
        if weights:
            return weights


def strike(world: World, weights: Weights) -> None:
    """One fault, or some at the same moment."""
    for name in world.rng.choices(list(weights), list(weights.values()), k=world.rng.choice([1, 1, 1, 2, 3])):
        FAULTS[name](world)
