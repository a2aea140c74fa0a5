"""Roll-outs of new versions against a world that loses, delays, repeats and restarts."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.programs.rollouts import MOST_DEATHS
from penstock.cluster.rollout import RolloutPhase
from penstock.cluster.status import ApplicationState
from tests.cluster.simulated_exactly_once import ExactlyOnceWorld
from tests.cluster.simulated_world import World
from tests.cluster.test_coordinator_simulation import at_rest, settled
from tests.cluster.virtual_time import run
from tests.tiers import sampled

KINDS = [World, ExactlyOnceWorld]


def generations(world: World) -> set[int]:
    """The versions that living actors run."""
    return {actor.generation for actor in world.actors.values() if actor.alive}


def over(world: World) -> bool:
    """True if the last roll-out has ended, one way or the other, and every task runs."""
    return settled(world) and world.rollout.phase.is_over


async def started(kind: type[World], seed: int) -> World:
    world = kind(seed)
    await world.start_coordinator()
    await at_rest(world)
    world.calm = False
    return world


async def until_phase(world: World, phase: RolloutPhase) -> None:
    await world.until(lambda: world.rollout.phase is phase, f"phase {phase.value}")


async def rolled_out_among_faults(world: World, rounds: int) -> None:
    """Deploys good and bad versions among faults; then waits until the application rests on one of them."""
    world.calm = False
    faults = [
        world.deploy, world.deploy, world.deploy, world.lose_an_actor, world.resize, world.regroup, world.restart,
        world.broker_outage, world.lose_session, world.lose_a_node, world.want, world.drain, world.move_a_task,
        world.restart_an_actor,
    ]  # fmt: skip
    for _ in range(rounds):
        await world.let_pass(world.rng.uniform(0, world.rng.choice([1, 8, 20])))
        world.rng.choice(faults)()
    await at_rest(world)
    await world.let_pass(2)  # until then it may be settled without a task
    await world.settle(lambda: over(world), "one version")
    (generation,) = generations(world)
    assert generation == world.rollout.generation == world.rollout.proven
    assert generation not in world.bad
    assert world.error is None


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_version_takes_over_every_task_and_the_old_actors_end(kind: type[World], seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await started(kind, seed)
        for generation in (2, 3):
            world.deploy(bad=False)
            await world.settle(lambda: over(world), "the new version everywhere")
            assert generations(world) == {generation} == {world.rollout.proven}
            assert world.rollout.phase is RolloutPhase.DONE
        assert world.phases >= {RolloutPhase.STARTING, RolloutPhase.MOVING, RolloutPhase.WATCHING, RolloutPhase.DONE}

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
@pytest.mark.parametrize("kind", KINDS)
def test_a_version_that_fails_is_rolled_back_and_the_application_does_not_end(kind: type[World], seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await started(kind, seed)
        world.deploy(bad=True)
        await world.settle(lambda: over(world), "the old version everywhere")
        assert generations(world) == {1}
        assert world.rollout.phase is RolloutPhase.ROLLED_BACK
        assert world.rollout.reason == "ValueError: bad"
        assert world.error is None
        world.deploy(bad=False)
        await world.settle(lambda: over(world), "the mended version everywhere")
        assert generations(world) == {3}

    run(play())


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_without_tasks_a_new_version_is_in_place_and_judged_when_tasks_come(
    kind: type[World], seed: int, bad: bool
) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await started(kind, seed)
        world.regroup(0.0)
        await world.settle(lambda: settled(world) and not generations(world), "no task here")
        world.deploy(bad)
        await world.settle(lambda: world.rollout.phase is RolloutPhase.WATCHING, "the new version in place")
        await world.let_pass(120)
        assert world.rollout.phase is RolloutPhase.WATCHING, "no task has proven it"
        world.regroup(1.0)
        await world.settle(lambda: over(world), "one version everywhere")
        assert generations(world) == {1 if bad else 2}
        assert world.error is None

    run(play())


@pytest.mark.parametrize("phase", [RolloutPhase.STARTING, RolloutPhase.MOVING, RolloutPhase.WATCHING])
@pytest.mark.parametrize("fault", ["an old actor", "a new actor", "the coordinator"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_one_loss_in_any_phase_does_not_stop_the_roll_out(
    kind: type[World], seed: int, fault: str, phase: RolloutPhase
) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await started(kind, seed)
        world.deploy(bad=False)
        await until_phase(world, phase)
        of_fault = 1 if fault == "an old actor" else 2
        found = [actor for actor in world.actors.values() if actor.alive and actor.generation == of_fault]
        if fault == "the coordinator":
            world.restart()
        elif found:
            world.rng.choice(found).kill()
        await world.settle(lambda: over(world), "the new version everywhere")
        assert generations(world) == {2}
        assert world.rollout.phase is RolloutPhase.DONE

    run(play())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_node_that_is_lost_with_many_new_actors_does_not_roll_a_good_version_back(
    kind: type[World], seed: int
) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = kind(seed)
        world.tasks_per_actor, world.cpus, world.nodes = None, 5, ["node 0"]
        world.counts["t0"] = world.beside["s0"] = 5
        world.assigned = world.plan.reads
        await world.start_coordinator()
        await at_rest(world)
        world.deploy(bad=False)
        await world.until(
            lambda: sum(it.alive and it.up for it in world.actors.values() if it.generation == 2) > MOST_DEATHS,
            "many new actors",
        )
        world.nodes = ["node 1"]
        for actor in [actor for actor in world.actors.values() if actor.alive]:
            actor.kill()
        await world.settle(lambda: over(world), "the new version everywhere")
        assert RolloutPhase.ROLLING_BACK not in world.phases
        assert generations(world) == {2}

    run(play())


@pytest.mark.parametrize("fault", ["an old actor", "a new actor", "the coordinator"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_one_loss_while_a_version_is_rolled_back_does_not_stop_that(kind: type[World], seed: int, fault: str) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await started(kind, seed)
        world.deploy(bad=True)
        await until_phase(world, RolloutPhase.ROLLING_BACK)
        of_fault = 1 if fault == "an old actor" else 2
        found = [actor for actor in world.actors.values() if actor.alive and actor.generation == of_fault]
        if fault == "the coordinator":
            world.restart()
        elif found:
            world.rng.choice(found).kill()
        await world.settle(lambda: over(world), "the old version everywhere")
        assert generations(world) == {1}
        assert world.rollout.phase is RolloutPhase.ROLLED_BACK
        assert world.error is None

    run(play())


@pytest.mark.parametrize("seed", sampled(range(30), every=3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_application_comes_to_rest_on_one_version_after_rollouts_among_faults(kind: type[World], seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = kind(seed)
        await world.start_coordinator()
        await rolled_out_among_faults(world, rounds=80)

    run(play())


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_without_a_free_cpu_old_actors_make_room_one_after_the_other(kind: type[World], seed: int, room: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = kind(seed)
        world.tasks_per_actor, world.room = None, room
        await world.start_coordinator()
        world.resize(room)
        await at_rest(world)
        fewest = before = sum(actor.alive and actor.up for actor in world.actors.values())
        world.deploy(bad=False)
        deadline = asyncio.get_running_loop().time() + 600
        while not over(world):
            assert asyncio.get_running_loop().time() < deadline, "the roll-out never ends"
            await world.let_pass(0.1)
            fewest = min(fewest, sum(actor.alive and bool(actor.tasks) for actor in world.actors.values()))
        assert generations(world) == {2}
        assert fewest >= min(before - 1, 1), "one at a time"
        assert world.state is ApplicationState.RUNNING

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_tasks_move_one_by_one_between_two_actors(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        world.tasks_per_actor = 1000
        world.nodes = ["node 0"]
        await world.start_coordinator()
        world.want(1)
        await at_rest(world)
        world.deploy(bad=False)
        silent = 0
        while not over(world):
            await world.let_pass(0.01)
            running = {task for actor in world.actors.values() if actor.alive for task in actor.running}
            silent = max(silent, len(world.plan.partitions) - len(running))
        assert silent <= 1

    run(play())
