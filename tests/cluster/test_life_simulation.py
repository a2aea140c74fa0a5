"""Pauses, and programs that fail, against a world that loses, delays, repeats and restarts."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.coordinator.replacements import LONGEST_BACKOFF_MS
from penstock.cluster.placement.standby_assignor import NO_STANDBYS
from penstock.cluster.status import ApplicationState
from penstock.common.handlers import UncaughtExceptionResponse
from tests.cluster.simulated_exactly_once import ExactlyOnceWorld
from tests.cluster.simulated_world import World
from tests.cluster.test_coordinator_simulation import at_rest, settled
from tests.cluster.virtual_time import run
from tests.tiers import sampled


def reported(world: World) -> set[bool]:
    """Returns the values of ``paused`` of the living actors that have tasks."""
    return {actor.paused for actor in world.actors.values() if actor.alive and actor.tasks}


async def troubled(world: World, rounds: int = 80) -> None:
    await world.start_coordinator()
    faults = [
        world.pause_or_resume, world.pause_or_resume, world.fail_an_actor, world.lose_an_actor, world.restart,
        world.resize, world.regroup,
    ]  # fmt: skip
    for _ in range(rounds):
        await world.let_pass(world.rng.uniform(0, 8))
        world.rng.choice(faults)()


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
@pytest.mark.parametrize("kind", [World, ExactlyOnceWorld])
def test_every_actor_learns_under_random_faults_whether_the_application_is_paused(kind: type[World], seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = kind(seed)
        await troubled(world)
        await at_rest(world)
        await world.until(
            lambda: settled(world) and bool(reported(world)), "tasks"
        )  # the group's assignment comes later
        for paused in (True, False, True):
            dispatcher = world.dispatcher
            assert dispatcher is not None
            await world.pausing.become(paused, lambda it=dispatcher: it.up)  # type: ignore[misc]  # a default to bind it
            assert reported(world) == {paused}, "when it returns, every actor has the order"
            world.restart()
            world.lose_an_actor()
            await world.until(lambda: settled(world) and bool(reported(world)), "RUNNING, paused or not")
            await world.let_pass(2)
            assert reported(world) == {paused}, "those that were there, and those that came since"

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_an_actor_that_starts_while_the_application_is_paused_never_has_a_task_and_does_not_know_it(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        await world.start_coordinator()
        await at_rest(world)
        world.calm = False
        dispatcher = world.dispatcher
        assert dispatcher is not None
        await world.pausing.become(True, lambda: dispatcher.up)
        unknowing: list[str] = []

        async def look() -> None:
            while True:
                unknowing.extend(it.name for it in world.actors.values() if it.alive and it.tasks and not it.paused)
                await asyncio.sleep(0.01)

        await world.let_pass(10)
        looking = asyncio.ensure_future(look())
        for _ in range(10):
            world.lose_an_actor()
            world.resize()
            await world.let_pass(world.rng.uniform(0, 8))
        looking.cancel()
        assert not unknowing

    run(play())


@pytest.mark.parametrize("seed", sampled(range(12), every=3))
def test_a_program_that_fails_each_time_is_started_again_ever_more_slowly(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = World(seed)
        world.tasks_per_actor, world.standby_policy = 1000, NO_STANDBYS  # one actor
        await world.start_coordinator()
        await at_rest(world)
        before = len(world.actors)
        deadline = asyncio.get_running_loop().time() + 600
        message = set()
        while asyncio.get_running_loop().time() < deadline:
            # As soon as it has running tasks: the first record is one that cannot be processed.
            for actor in [actor for actor in world.actors.values() if actor.alive and actor.running]:
                actor.fail(UncaughtExceptionResponse.REPLACE_ACTOR)
            assert world.dispatcher is not None
            message.add(world.dispatcher.machine.waits_for)
            await world.let_pass(0.25)
        started = len(world.actors) - before
        assert 600_000 / LONGEST_BACKOFF_MS / 2 < started < 600_000 / LONGEST_BACKOFF_MS * 1.5
        assert any(it is not None and "ValueError: bad" in it for it in message), "the status shows what is waited for"
        await world.settle(lambda: settled(world), "RUNNING when it fails no more")
        await world.let_pass(120)
        assert world.dispatcher is not None
        assert world.dispatcher.machine.waits_for is None

    run(play())


@pytest.mark.parametrize(
    "response", [UncaughtExceptionResponse.SHUTDOWN_CLIENT, UncaughtExceptionResponse.SHUTDOWN_APPLICATION]
)
def test_other_answers_end_the_application(response: UncaughtExceptionResponse) -> None:
    async def play() -> None:
        world = World(1)
        await world.start_coordinator()
        await at_rest(world)
        next(actor for actor in world.actors.values() if actor.alive).fail(response)
        await world.settle(lambda: world.state is ApplicationState.ERROR, "ERROR")
        assert world.error == "ValueError: bad"
        assert not any(actor.alive for actor in world.actors.values())

    run(play())
