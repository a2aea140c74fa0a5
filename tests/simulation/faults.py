"""The faults that may befall a cluster, each drawn from the seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.common.ids import TopicPartition
from tests.simulation.actor_process import ActorProcess
from tests.simulation.operations import OPERATIONS
from tests.simulation.swarm import Weights
from tests.simulation.world import World


def kill_an_actor(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        world.note(f"kill {actor.name}")
        actor.end()


def kill_an_actor_and_lose_its_disk(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        world.lose_node(actor.node)


def freeze_an_actor(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        seconds = world.swarm.length_s(world.rng, 4)
        world.note(f"freeze {actor.name} for {seconds:.1f} s")
        actor.freeze(seconds)


def cut_an_actor_from_ray(world: World) -> None:
    """Its node is cut off from the others, not from Kafka; Ray may take it for dead."""
    if actor := world.choose(lambda it: it.living()):
        seconds = world.swarm.length_s(world.rng, 4)
        world.note(f"cut {actor.name} from Ray for {seconds:.1f} s")
        actor.cut_from_ray(seconds)
        if world.rng.random() < 0.6:
            ghost_s = world.ghost_s()
            world.note(f"{actor.name} is taken for dead, and lives for {ghost_s:.1f} s")
            actor.be_taken_for_dead(ghost_s)


def cut_an_actor_from_the_broker(world: World) -> None:
    if actor := world.choose(lambda it: it.living()):
        seconds = world.swarm.length_s(world.rng)
        world.note(f"cut {actor.name} from the broker for {seconds:.1f} s")
        actor.cut_from_broker(seconds)


def throttle_an_actor(world: World) -> None:
    """The quota of a broker, or a slow network, lets its records through one by one."""
    if actor := world.choose(lambda it: it.living()):
        seconds = world.swarm.length_s(world.rng, 3)
        world.note(f"{actor.name} is throttled for {seconds:.1f} s")
        actor.throttle(seconds)


def hold_commits(world: World) -> None:
    """Commits come to the coordinator late, while it asks the actor as before."""
    if actor := world.choose(lambda it: it.living()):
        seconds = world.swarm.length_s(world.rng, 3)
        world.note(f"commits of {actor.name} are late by up to {seconds:.1f} s")
        actor.hold_commits(seconds)


def go_back_beside_a_commit(world: World) -> None:
    """An actor loses its lease, but not its place, while a commit is under way. It reads again, and its records are let
    through one by one. The commit comes late, then the actor dies."""
    if actor := world.choose(lambda it: [actor for actor in it.living() if world.now() > actor.troubled_until]):
        away_s, late_s = world.rng.uniform(31, 43), world.rng.uniform(0, 15)
        world.note(f"cut {actor.name} from Ray for {away_s:.1f} s, its commits are late by {away_s + late_s:.1f} s")
        actor.cut_from_ray(away_s)
        actor.hold_commits(away_s + late_s)
        actor.throttle(away_s + late_s + 20)
        asyncio.get_running_loop().call_later(away_s + late_s + world.rng.uniform(0, 10), _die, world, actor)


def _die(world: World, actor: ActorProcess) -> None:
    if not world.is_calm:
        actor.end()


def cut_a_coordinator_from_the_broker(world: World) -> None:
    if coordinator := world.choose(lambda it: [it.coordinator] if it.coordinator else []):
        seconds = world.swarm.length_s(world.rng, 4)
        world.note(f"cut a coordinator from the broker for {seconds:.1f} s")
        coordinator.cut_from_broker_until = world.now() + seconds


def isolate_a_coordinator(world: World) -> None:
    """It reaches neither the broker nor an actor, which is taken for dead and works on."""
    if actor := world.choose(lambda it: it.living() if it.coordinator else []):
        seconds = world.swarm.length_s(world.rng, 4)
        world.note(f"a coordinator reaches neither {actor.name} nor the broker for {seconds:.1f} s")
        actor.cluster.coordinator.cut_from_broker_until = world.now() + seconds
        actor.cut_from_ray(seconds)
        actor.be_taken_for_dead(world.ghost_s())


def lose_an_actor_bit_by_bit(world: World) -> None:
    """First it loses the broker, then Ray takes it for dead, then the broker is back."""
    if actor := world.choose(lambda it: it.living()):
        broker_s = world.rng.uniform(10, 40)
        world.note(f"cut {actor.name} from the broker for {broker_s:.1f} s, and soon from Ray")
        actor.cut_from_broker(broker_s)
        asyncio.get_running_loop().call_later(world.rng.uniform(0, broker_s), _then_from_ray, world, actor, broker_s)


def _then_from_ray(world: World, actor: ActorProcess, broker_s: float) -> None:
    if actor.exists and not actor.taken_for_dead:
        world.note(f"{actor.name} is taken for dead")
        actor.cut_from_ray(broker_s)
        actor.be_taken_for_dead(world.ghost_s())


def restart_a_coordinator(world: World) -> None:
    if cluster := world.choose(lambda it: [it] if it.coordinator else []):
        cluster.end_coordinator()
        seconds = world.rng.choice([0.0, world.rng.uniform(0, 5), world.swarm.length_s(world.rng, 3)])

        def start() -> None:
            if cluster.coordinator is None:
                cluster.start_coordinator(restarted=True)

        asyncio.get_running_loop().call_later(seconds, start)


def broker_outage(world: World) -> None:
    if world.broker.down:
        return
    seconds = world.swarm.length_s(world.rng)
    world.note(f"no broker for {seconds:.1f} s")
    world.broker.down = True
    asyncio.get_running_loop().call_later(seconds, _broker_back, world)


def _broker_back(world: World) -> None:
    if world.broker.down:
        world.note("the broker is back")
        world.broker.down = False


def lose_a_leader(world: World) -> None:
    """Takes the leader of one partition. Not of topics that are joined: a task continues without the other side, as it
    may. At least once, not of results whose rows are deleted at the same moment: if the deletion reaches the changelog
    and the result not its topic, a crash loses it (docs/RELIABILITY.md, "What at least once means for state")."""
    if not world.broker.answers:
        return
    spared = {*world.program.joined, *(() if world.exactly_once else world.program.let_go)}
    counts = {topic: count for topic, count in world.broker.topics().items() if topic not in spared}
    partitions = [TopicPartition(topic, n) for topic, count in sorted(counts.items()) for n in range(count)]
    partition, seconds = world.rng.choice(partitions), world.swarm.length_s(world.rng)
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


def remove_a_member(world: World) -> None:
    """An administrator removes a cluster's static member from the group; it joins again. At least once, it commits
    first: otherwise two clusters would write the same changelogs until it has heard of it."""
    if world.broker.answers and world.group.members:
        name = world.rng.choice(sorted(world.group.members))
        world.note(f"{name} is removed from the group")
        world.spawn(world.group.rebalance(name, waits_for_it=not world.exactly_once))


def resize(world: World) -> None:
    cluster = world.choose(lambda it: [it])
    cluster.cpus = world.rng.randint(1, 4)
    world.note(f"{cluster.name} has {cluster.cpus} CPUs")


FAULTS: dict[str, Callable[[World], None]] = {
    call.__name__: call
    for call in (
        kill_an_actor, kill_an_actor_and_lose_its_disk, freeze_an_actor, cut_an_actor_from_ray,
        cut_an_actor_from_the_broker, throttle_an_actor, hold_commits, go_back_beside_a_commit,
        lose_an_actor_bit_by_bit, cut_a_coordinator_from_the_broker,
        isolate_a_coordinator, restart_a_coordinator, broker_outage, lose_a_leader, abort_transactions, rebalance,
        remove_a_member, resize,
    )
} | OPERATIONS  # fmt: skip


def strike(world: World, weights: Weights) -> None:
    """Causes one fault, or some at the same moment."""
    for name in world.rng.choices(list(weights), list(weights.values()), k=world.rng.choice([1, 1, 1, 2, 3])):
        FAULTS[name](world)
