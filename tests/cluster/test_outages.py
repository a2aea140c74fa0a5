"""A broker or a coordinator that is away for any time, at any moment, ends no actor; work resumes within 5 s."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.actors.commits.commit_calls import CALL_S, GONE_S
from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.actors.status import TaskState
from penstock.actors.steps import PATIENCE_S
from penstock.cluster.coordinator_shell.suspending import SUSPEND_S
from penstock.cluster.environment import RELEASE_S
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.silence import HUNG_S
from tests.cluster.outage_clients import INIT_S, MESSAGE_TIMEOUT_S
from tests.cluster.outage_world import SESSION_S, OutageWorld
from tests.cluster.virtual_time import run
from tests.tiers import sampled

TIME_OUTS = sorted(
    {CALL_S, GONE_S, PATIENCE_S, SUSPEND_S, RELEASE_S, PROCESS_LOST_S, HUNG_S, INIT_S, MESSAGE_TIMEOUT_S, SESSION_S}
)
"""Those of the code, and of the clients."""
LENGTHS = [limit_s + more_s for limit_s in TIME_OUTS for more_s in (-1, 0, 1)]
RESUMES_S = 5.0
Moment = Callable[[OutageWorld], Awaitable[None]]


async def begun(world: OutageWorld) -> None:
    world.write_names()
    await world.start_coordinator()


async def working(world: OutageWorld) -> None:
    await begun(world)
    world.write()
    await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)


async def away(world: OutageWorld, when: Callable[[], bool]) -> None:
    world.begins_when = when
    await world.until(lambda: world.broker.down, "the outage begins", 30)


async def at_start(world: OutageWorld) -> None:
    world.write_names()
    world.broker.down = True
    await world.start_coordinator()


async def at_global_tables(world: OutageWorld) -> None:
    await begun(world)
    await away(world, lambda: any(loop._globals.state is TaskState.RESTORING for loop in world.loops))


async def before_a_restore(world: OutageWorld) -> None:
    await working(world)
    world.actors["stream/1"].die()
    await away(world, lambda: world.has_task(TaskState.CREATED))


async def at_a_restore(world: OutageWorld) -> None:
    await working(world)
    world.actors["stream/1"].die()
    await away(world, lambda: world.has_task(TaskState.RESTORING))


async def at_commit(world: OutageWorld) -> None:
    await working(world)
    world.write()
    await away(world, lambda: any(loop._commits.under_way is not None for loop in world.loops))


async def before_a_commit(world: OutageWorld) -> None:
    await working(world)
    world.write()
    await away(world, lambda: any(hosted.touched for loop in world.loops for hosted in loop._running))


async def at_fence(world: OutageWorld) -> None:
    await working(world)
    world.write()
    world.broker.down = True
    world.actors["stream/1"].die()


async def at_assignment(world: OutageWorld) -> None:
    await working(world)
    world.write()
    world.scale(3)
    await away(world, lambda: world.is_assigning)


async def at_a_rebalance(world: OutageWorld) -> None:
    await working(world)
    world.write()
    world.broker.down = True
    assert world.dispatcher is not None
    await world.dispatcher.suspend()
    world.regroup()


MOMENTS: dict[str, Moment] = {
    "start": at_start,
    "global tables": at_global_tables,
    "before a restore": before_a_restore,
    "restore": at_a_restore,
    "before a commit": before_a_commit,
    "commit": at_commit,
    "fence": at_fence,
    "assignment": at_assignment,
    "rebalance": at_a_rebalance,
}


@pytest.mark.parametrize("guarantee", ["at least once", "exactly once"])
@pytest.mark.parametrize("moment", sampled(MOMENTS, every=3, rest=pytest.mark.submission))
def test_an_outage_of_the_broker_ends_no_actor_and_work_resumes(moment: str, guarantee: str, tmp_path: Path) -> None:
    for length_s in LENGTHS:
        run(outage(tmp_path / str(length_s), guarantee == "exactly once", MOMENTS[moment], length_s))


async def outage(directory: Path, exactly_once: bool, moment: Moment, length_s: float) -> None:
    world = OutageWorld(directory, exactly_once)
    await moment(world)
    await asyncio.sleep(length_s)
    assert world.broker.down
    world.broker.down = False
    await resumes(world, f"{length_s} s")


async def resumes(world: OutageWorld, what: str) -> None:
    world.write()
    await world.until(lambda: world.is_done, f"all is counted after {what}", RESUMES_S)
    await world.until(lambda: world.is_running, f"it is RUNNING after {what}", RESUMES_S)
    assert set(world.ended) <= world.dead, "an actor was ended that did not die"
    assert not {ApplicationState.ERROR, ApplicationState.PENDING_ERROR} & set(world.states)
    if world.exactly_once:
        for counts in world.counts().values():
            assert counts == sorted(set(counts))
            assert counts[-1] == world.sent
    for actor in world.actors.values():
        actor.die()


@pytest.mark.parametrize("guarantee", ["at least once", "exactly once"])
@pytest.mark.parametrize("with_the_broker", [False, True])
def test_a_coordinator_that_is_away_ends_no_actor_and_work_resumes(
    with_the_broker: bool, guarantee: str, tmp_path: Path
) -> None:
    for length_s in LENGTHS:
        run(no_coordinator(tmp_path / str(length_s), guarantee == "exactly once", with_the_broker, length_s))


async def no_coordinator(directory: Path, exactly_once: bool, with_the_broker: bool, length_s: float) -> None:
    world = OutageWorld(directory, exactly_once)
    await working(world)
    world.write()
    world.scale(3)
    await asyncio.sleep(0.1)
    world.broker.down = with_the_broker
    world.end_coordinator()
    await asyncio.sleep(length_s)
    world.broker.down = False
    await world.start_coordinator()
    await resumes(world, f"{length_s} s")
