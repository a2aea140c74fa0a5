"""The coordinator under ``exactly_once_v2``, through its dispatcher: no record is lost, none counts twice."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.coordinator.commit_requests import CommitRequests
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.events import ActorFenced
from penstock.common.errors import BrokerUnreachableError
from tests.cluster.simulated_exactly_once import ExactlyOnceWorld, TransactionalActor
from tests.cluster.test_coordinator_simulation import settled
from tests.cluster.virtual_time import run
from tests.tiers import sampled

SEEDS = sampled(range(60), every=3)


async def troubled(seed: int, rounds: int = 60, world: ExactlyOnceWorld | None = None) -> ExactlyOnceWorld:
    """A world after many faults."""
    world = world or ExactlyOnceWorld(seed)
    await world.start_coordinator()
    faults = [
        *[world.lose_an_actor] * 3, *[world.lose_and_shrink] * 3, *[world.regroup] * 3, world.resize, world.restart,
        world.grow, world.broker_outage, world.broker_back, world.lose_session, world.move_a_task,
        world.restart_an_actor,
    ]  # fmt: skip
    # Each world has its own choice of faults, because faults of one kind hide what others cause.
    own = [fault for fault in faults if world.rng.random() < 0.5] or faults
    for _ in range(rounds):
        # One while the messages about the one before are under way, or when all is well again.
        await world.let_pass(world.rng.uniform(0, world.rng.choice([0.5, 8])))
        world.rng.choice(own)()
    return world


async def at_rest(world: ExactlyOnceWorld) -> None:
    world.calm = True
    await world.settle(lambda: world.dispatcher is not None, "a coordinator")
    world.regroup(share=1.0)
    await world.let_pass(2)  # until then it may be settled without a task
    await world.settle(lambda: settled(world), "RUNNING, and no actor is started or stopped any more")


@pytest.mark.parametrize("seed", SEEDS)
def test_each_transaction_begins_at_the_end_of_the_one_before(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = await troubled(seed)
        await at_rest(world)
        before = dict(world.offsets)
        await world.let_pass(100)
        reads = world.plan.reads
        assert all(world.offsets[at] > before.get(at, 0) for at in reads), "a partition on which nobody works"
        assert world.violation is None

    run(play())


@pytest.mark.parametrize("seed", range(2))
def test_two_hundred_tasks_come_to_rest_like_a_few(seed: int) -> None:
    print(f"seed {seed}")

    async def play() -> None:
        world = ExactlyOnceWorld(seed)
        world.counts, world.beside = {"t0": 100, "t1": 100}, {"s0": 100, "s1": 50}
        world.tasks_per_actor, world.assigned = None, world.plan.reads
        await troubled(seed, rounds=30, world=world)
        await at_rest(world)
        assert len(world.plan.partitions) == 200
        assert world.violation is None

    run(play())


def test_the_faults_are_real() -> None:
    outcomes: Counter[str] = Counter()

    async def play(seed: int) -> None:
        outcomes.update((await troubled(seed)).outcomes)

    for seed in range(20):
        run(play(seed))
    assert outcomes.keys() == {"committed", "committed by a ghost", "fenced", "another member", "not heard of"}
    assert min(outcomes.values()) > 10, outcomes


# ---- would it find a mistake? ----


def forget_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator takes an actor that is lost for dead."""
    gone = Coordinator._gone
    monkeypatch.setattr(Coordinator, "_gone", lambda self, name, in_doubt, **_: gone(self, name, in_doubt=False))


def call_it_fenced_when_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher takes an error for an answer."""

    async def fence(self: Any, name: str, slot: int) -> None:
        with contextlib.suppress(BrokerUnreachableError):
            await self._environment.fence(slot)
        self.feed(ActorFenced(name))

    monkeypatch.setattr(Dispatcher, "_fence", fence)


def accept_partitions_of_other_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator does not look whether the group has given an actor's partitions elsewhere."""
    monkeypatch.setattr(CommitRequests, "_may_be_member", lambda self, _: bool(self._owned.group_metadata))


def accept_an_old_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of the assignment that is on its way to the actor may be another's since."""

    def may_be_member(self: Any, request: CommitRequest) -> bool:
        sources = self._owned.plan.partitions
        held = {task for task in self._actors[request.actor_id].held if task in sources}
        return bool(self._owned.group_metadata) and held <= self._owned.tasks

    monkeypatch.setattr(CommitRequests, "_may_be_member", may_be_member)


def go_on_after_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor does not read again what is committed."""

    async def go_back(self: Any, fenced: bool) -> None:
        self.group_metadata = None
        if fenced:
            await self._take_id()
        await self._find_group_metadata()

    monkeypatch.setattr(TransactionalActor, "_go_back", go_back)


def take_the_id_after_finding_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator may have fenced the actor since it has answered."""

    async def go_back(self: Any, fenced: bool) -> None:
        self.group_metadata = None
        self.running.clear()
        if await self._find_group_metadata():
            if fenced:
                await self._take_id()
            await self._begin()

    monkeypatch.setattr(TransactionalActor, "_go_back", go_back)


@pytest.mark.parametrize(
    "mistake",
    [
        forget_without_a_fence, call_it_fenced_when_no_broker_answers, accept_partitions_of_other_members,
        accept_an_old_assignment, go_on_after_an_abort, take_the_id_after_finding_the_group,
    ],
)  # fmt: skip
@pytest.mark.long
def test_a_mistake_that_doubles_or_loses_records_is_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    for seed in range(1000):
        try:
            run(_played(seed))
        except AssertionError as error:
            if "commits" not in str(error):
                raise
            return
    pytest.fail("not found by 1,000 seeds")


async def _played(seed: int) -> None:
    await troubled(seed)
