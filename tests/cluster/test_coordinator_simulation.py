"""The coordinator's dispatcher and state machine against a world that loses, delays, repeats and restarts."""

from __future__ import annotations

import asyncio
import math

import pytest

from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.cluster.scaling.elasticity import LEAVE_S
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers import leases
from penstock.cluster.watchers.silence import HUNG_S
from tests.cluster.simulated_world import World
from tests.cluster.virtual_time import run
from tests.tiers import sampled

SEEDS = sampled(range(40), every=3)


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinators are restarted each 13 s here: with leases of 30 s tasks would hardly ever move."""
    monkeypatch.setattr(leases, "LONGEST_S", 1.0)


async def troubled(seed: int, rounds: int = 120) -> World:
    """A world after many faults."""
    world = World(seed)
    await world.start_coordinator()
    faults = [
        world.lose_an_actor, world.resize, world.regroup, world.restart, world.restart, world.grow, world.broker_outage,
        world.lose_session, world.lose_a_node, world.want, world.drain, world.drain, world.move_a_task,
        world.move_a_task, world.restart_an_actor,
    ]  # fmt: skip
    for _ in range(rounds):
        # One while the messages about the one before are under way, or when all is well again.
        await world.let_pass(world.rng.uniform(0, world.rng.choice([1, 8])))
        world.rng.choice(faults)()
    return world


async def at_rest(world: World) -> None:
    world.calm = True
    await world.settle(lambda: world.dispatcher is not None, "a coordinator")
    world.regroup(share=1.0)
    await world.settle(lambda: settled(world), "RUNNING, and no actor is started or stopped any more")


def settled(world: World) -> bool:
    if world.dispatcher is None or world.state is not ApplicationState.RUNNING or world.rebalances:
        return False
    if world.draining:
        return False
    machine = world.dispatcher.machine
    living = sorted(actor.name for actor in world.actors.values() if actor.alive)
    used = set(machine.placement.values()).union(*machine.standbys.values())
    # An actor whose last task was moved away by a user is there all the same.
    as_wanted = sorted(machine.actors) == living and (living == sorted(used) or bool(world.wishes.by_task))
    return not machine.starting and as_wanted and not machine.moving


def loads_of(world: World) -> list[int]:
    """Returns the number of tasks that each living actor has, except those whose place a user wants."""
    return [len(actor.tasks.keys() - world.wishes.by_task.keys()) for actor in world.actors.values() if actor.alive]


def running(world: World) -> dict[object, str]:
    return {task: actor.name for actor in world.actors.values() if actor.alive for task in actor.running}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_is_held_twice_and_in_the_end_every_partition_is_read(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await troubled(seed)
        await at_rest(world)
        assert world.dispatcher is not None
        machine = world.dispatcher.machine
        assert running(world) == machine.placement
        assert {p for actor in world.actors.values() if actor.alive for it in actor.tasks.values() for p in it} == (
            world.plan.reads
        )
        assert all(actor.confirmed == actor.epoch for actor in machine._actors.values())
        for task in (task for task in machine.placement if task.subtopology in machine.plan.logged):
            standbys = {actor.name for actor in world.actors.values() if actor.alive and task in actor.standbys}
            assert standbys == set(machine.standbys.get(task, ()))
            assert len(standbys) == min(world.standby_policy.replicas, len(loads_of(world)) - 1)
        assert all(machine.placement[task] == to for task, to in world.wishes.by_task.items())
        assert world.history.between(0, 10**15).events
        loads = loads_of(world)
        assert max(loads) - min(loads) <= 1
        moves, answered = world.moves, world.calls["accepted"]
        await world.let_pass(100)
        assert world.moves == moves, "tasks move although nothing has changed"
        assert world.calls["accepted"] > answered, "nothing is committed any more"
        assert world.calls["repeated"]
        world.calm = False
        for _ in range(world.rng.randint(0, 3)):
            world.request_stop()
            await world.let_pass(world.rng.uniform(0, 4))
            world.restart()  # Ray repeats the stop to the restarted coordinator
            await world.until(lambda: world.dispatcher is not None, "a coordinator")
        world.request_stop()
        await world.settle(lambda: world.state is ApplicationState.NOT_RUNNING, "NOT_RUNNING")
        assert not any(actor.alive for actor in world.actors.values())
        assert not world.unanswered

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_a_restart_at_every_moment_of_a_scale_down_harms_nothing(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        world.tasks_per_actor = None
        await world.start_coordinator()
        stopping = 0
        for _ in range(8):
            world.resize(6)
            await world.until(lambda: settled(world), "RUNNING on six CPUs")
            world.resize(1)
            await world.let_pass(world.rng.uniform(0, 5))
            stopping += sum(actor.alive and actor.stopping for actor in world.actors.values())
            world.restart()
        assert stopping or len(world.plan.partitions) == 1, "no restart met an actor that was stopping"
        await at_rest(world)
        assert world.error is None

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_the_last_request_decides_the_number_of_actors(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        await world.start_coordinator()
        for _ in range(10):
            world.want()
            if world.rng.random() < 0.5:
                world.rng.choice([world.restart, world.lose_an_actor])()
            await world.let_pass(world.rng.uniform(0, 12))
        await at_rest(world)
        wanted = min(world.wanted or 0, len(world.plan.partitions))
        await world.until(lambda: sum(it.alive for it in world.actors.values()) == wanted, f"{wanted} actors")
        await world.settle(lambda: settled(world), "RUNNING on as many")
        assert world.error is None

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
@pytest.mark.parametrize("left_s", [60.0, None])
def test_a_drained_node_is_left_without_refused_commits_one_node_after_another(left_s: float | None, seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        await world.start_coordinator()
        world.want(4)
        await at_rest(world)
        before = world.moves
        for _ in range(5):
            world.drain(math.inf if left_s is None else left_s)
            await world.settle(lambda: settled(world), "another node in its place")
            refused = world.calls["refused"]
            assert running(world).keys() == world.plan.partitions.keys()
            assert {actor.node for actor in world.actors.values() if actor.alive} <= set(world.nodes)
        assert world.moves > before
        assert world.cut_short == 0, "a node went with actors on it"
        assert refused == world.calls["refused"] == 0
        await world.let_pass(100)
        assert settled(world)

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_tasks_remain_on_a_drained_node_until_shortly_before_its_end_if_no_other_has_room(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        await world.start_coordinator()
        world.want(2)
        await at_rest(world)
        world.full = True
        for node in list(world.nodes):
            world.draining[node] = asyncio.get_running_loop().time() + 60
        world.nodes.append("node 99")
        await world.let_pass(60 - LEAVE_S - 3)
        assert running(world).keys() == world.plan.partitions.keys()
        await world.let_pass(10)
        assert not any(actor.alive and actor.up for actor in world.actors.values())
        world.full = False
        await world.until(lambda: world.state is ApplicationState.RUNNING, "RUNNING on the node that has come")
        assert {actor.node for actor in world.actors.values() if actor.alive} == {"node 99"}

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
@pytest.mark.parametrize("loss", ["member_lost", "refused_for_good"])
def test_when_kafka_takes_no_commit_any_more_every_actor_ends_at_once_and_the_application_reports_why(
    loss: str, seed: int
) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await troubled(seed, rounds=20)
        await at_rest(world)
        setattr(world, loss, True)
        await world.settle(lambda: world.state is ApplicationState.ERROR, "ERROR", limit_s=30)
        assert world.error
        assert not any(actor.alive for actor in world.actors.values())
        assert not world.unanswered

    run(play())


@pytest.mark.parametrize(("how", "after_s"), [("busy", HUNG_S), ("frozen", PROCESS_LOST_S)])
@pytest.mark.parametrize("seed", range(6))
def test_an_actor_that_stays_silent_is_ended_and_others_take_its_tasks(seed: int, how: str, after_s: float) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        await world.start_coordinator()
        await at_rest(world)
        actor = world.rng.choice([actor for actor in world.actors.values() if actor.alive])
        setattr(actor, how, True)
        silent_since = asyncio.get_running_loop().time()
        await world.until(lambda: not actor.alive, "its end")
        assert after_s <= asyncio.get_running_loop().time() - silent_since < after_s + 20
        await world.settle(lambda: settled(world), "RUNNING without it")

    run(play())
