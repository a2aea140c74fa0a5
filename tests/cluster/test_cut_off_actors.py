"""A stream actor that its coordinator does not reach, but that reaches Kafka, under at least once; virtual time.

Its successor may repeat what it has written since the last commit. Nothing of the actor may come after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.lease import LONGEST_S, QuestionId
from penstock.actors.loop.standstill import Standstill
from penstock.actors.orders import Order
from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.actors.status import ActorEnd, ActorStatus
from penstock.cluster.environment import ActorHandle, ActorLostError, NodeAnswer
from penstock.cluster.watchers.leases import MARGIN_S, ORPHANED_S, Leases
from penstock.cluster.watchers.silence import SHOWN_AFTER_S
from tests.cluster.outage_actor import LivingActor
from tests.cluster.outage_world import OutageWorld
from tests.cluster.virtual_time import run

_FOR_EVER_S = 1_000_000.0
_WRITE_EACH_S = 0.5


class CutOff(LivingActor):
    """An actor that can be cut off. ``questions_arrive``: its connection loses only its answers. ``busy_s``: seconds
    after which its loop answers."""

    def __init__(self, world: CutWorld, name: str) -> None:
        super().__init__(world, name)
        self.is_cut = self.questions_arrive = False
        self.busy_s = 0.0
        self.taken_for_dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when Ray takes its node for dead although its process lives."""

    @override
    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        await asyncio.sleep(self.busy_s)
        answer = await super().status(question_id) if not self.is_cut or self.questions_arrive else None
        if not self.is_cut:
            return answer
        await asyncio.sleep(10)
        return None

    @override
    async def heartbeat(self, question_id: QuestionId) -> bool:
        if not self.is_cut:
            return await super().heartbeat(question_id)
        if self.questions_arrive:
            self._lease.question_arrived(question_id)
        await asyncio.sleep(5)
        return False

    @override
    async def insist(self, order: Order) -> bool:
        if self.is_cut:
            await asyncio.sleep(_FOR_EVER_S)
        return await self.tell(order)

    @override
    async def wait(self) -> ActorEnd:
        ended = asyncio.ensure_future(super().wait())
        waiting: set[asyncio.Future[Any]] = {ended, self.taken_for_dead}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        ended.cancel()
        raise ActorLostError("its node has died, as far as Ray knows")

    @override
    def kill(self) -> None:
        if self.is_cut:
            self._world.ended.append(self.actor_id)
        else:
            super().kill()


class CutWorld(OutageWorld):
    """Two actors, of which the first is cut off."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, exactly_once=False)
        self.of_first = NodeAnswer.UNREACHABLE
        # With a cache, results come only with a commit, and a commit of an actor that is cut off is never answered.
        self.config = self.config.model_copy(update={"statestore_cache_max_bytes": 0})

    @property
    def first(self) -> CutOff:
        actor = self.actors["stream/1"]
        assert isinstance(actor, CutOff)
        return actor

    @override
    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        self.actors[actor_id] = CutOff(self, actor_id)
        return self.actors[actor_id]

    @override
    async def node(self, node_id: str) -> NodeAnswer:
        is_first = node_id == f"node of {self.first.actor_id}" and self.first.is_cut
        return self.of_first if is_first else NodeAnswer.ANSWERS

    @override
    async def call_coordinator(self, request: CommitRequest) -> CommitAnswer | None:
        actor = self.actors[request.actor_id]
        assert isinstance(actor, CutOff)
        if actor.is_cut:
            await asyncio.sleep(_FOR_EVER_S)
        return await super().call_coordinator(request)

    def stale(self) -> list[str]:
        """Returns each place where ``out`` or the changelog goes back to an earlier count more than once for a key."""
        found = []
        for topic in ("out", "app-counts-changelog"):
            counts: dict[bytes | None, list[int]] = {}
            for record in self.broker.records(topic):
                if topic == "out":
                    count = int((record.value or b"").decode().split(":")[1])
                else:
                    count = int.from_bytes((record.value or b"")[-8:], "big")
                counts.setdefault(record.key, []).append(count)
            for key, values in counts.items():
                back = [f"{before}, {after}" for before, after in pairwise(values) if after <= before]
                if len(back) > 1:
                    found.append(f"{topic}, {key!r}: {'; '.join(back[:10])}")
        return found


async def cut_off(world: CutWorld, **how: Any) -> float:
    """Cuts the first actor off while records come. Returns the seconds after which another has its tasks."""
    world.write_names()
    await world.start_coordinator()
    world.write()
    await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)
    assert world.dispatcher is not None
    machine = world.dispatcher.machine
    its = {task for task, name in machine.placement.items() if name == "stream/1"}
    assert its
    world.first.is_cut = True
    for name, value in how.items():
        setattr(world.first, name, value)
    loop = asyncio.get_running_loop()
    begun_s, moved_s = loop.time(), 0.0
    while loop.time() - begun_s < PROCESS_LOST_S + 60:
        world.write(1)
        await asyncio.sleep(_WRITE_EACH_S)
        if not moved_s and its <= machine.placement.keys() and "stream/1" not in machine.placement.values():
            moved_s = loop.time() - begun_s
    await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)
    return moved_s


def played(directory: Path, story: Callable[[CutWorld], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        world = CutWorld(directory)
        await story(world)
        for actor in world.actors.values():
            actor.die()

    run(play())


async def silent(world: CutWorld) -> None:
    moved_s = await cut_off(world)
    assert PROCESS_LOST_S <= moved_s <= PROCESS_LOST_S + 10


async def answers_are_lost(world: CutWorld) -> None:
    await cut_off(world, questions_arrive=True)


async def taken_for_dead(world: CutWorld) -> None:
    asyncio.get_running_loop().call_later(20, lambda: world.first.taken_for_dead.set_result(None))
    moved_s = await cut_off(world)
    assert moved_s <= LONGEST_S + MARGIN_S + 10, "the time since the last answer counts"


async def raylet_has_ended(world: CutWorld) -> None:
    world.of_first = NodeAnswer.REFUSES
    moved_s = await cut_off(world, raylet_has_ended=True)
    assert moved_s <= SHOWN_AFTER_S + ORPHANED_S + 4


CASES = [silent, answers_are_lost, taken_for_dead, raylet_has_ended]


@pytest.mark.parametrize("story", CASES)
def test_nothing_of_an_actor_that_is_cut_off_comes_behind_the_results_of_its_successor(
    story: Callable[[CutWorld], Coroutine[Any, Any, None]], tmp_path: Path
) -> None:
    async def whole(world: CutWorld) -> None:
        await story(world)
        assert world.stale() == []

    played(tmp_path, whole)


@pytest.mark.parametrize("story", [silent, answers_are_lost, raylet_has_ended])
def test_without_a_lease_stale_results_come(
    story: Callable[[CutWorld], Coroutine[Any, Any, None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Standstill, "enforce", lambda _: False)

    async def whole(world: CutWorld) -> None:
        await story(world)
        assert world.stale()

    played(tmp_path, whole)


def test_with_a_coordinator_that_does_not_wait_stale_results_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leases, "give_up", lambda *_: 0.0)

    async def whole(world: CutWorld) -> None:
        asyncio.get_running_loop().call_later(10, lambda: world.first.taken_for_dead.set_result(None))
        await cut_off(world)
        assert world.stale()

    played(tmp_path, whole)


def test_a_process_whose_end_its_node_reports_is_replaced_at_once(tmp_path: Path) -> None:
    async def whole(world: CutWorld) -> None:
        world.write_names()
        await world.start_coordinator()
        world.write()
        await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)
        world.first.die()
        assert world.dispatcher is not None
        machine = world.dispatcher.machine
        took_s = await world.until(
            lambda: "stream/1" not in machine.placement.values() and world.is_running, "moved", 9
        )
        assert took_s < MARGIN_S

    played(tmp_path, whole)


def test_after_a_restart_of_the_coordinator_the_others_wait_less_than_5_s_for_one_that_is_cut_off(
    tmp_path: Path,
) -> None:
    async def whole(world: CutWorld) -> None:
        world.write_names()
        await world.start_coordinator()
        world.write()
        await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)
        world.end_coordinator()
        world.first.is_cut = True
        begun_s = asyncio.get_running_loop().time()
        await world.start_coordinator()
        assert asyncio.get_running_loop().time() - begun_s < 5.0
        assert world.ended == ["stream/1"]

    played(tmp_path, whole)


def test_after_a_restart_of_the_coordinator_one_that_is_busy_for_8_s_is_kept(tmp_path: Path) -> None:
    """An actor is that busy with a request that no broker answers."""

    async def whole(world: CutWorld) -> None:
        world.write_names()
        await world.start_coordinator()
        world.write()
        await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)
        world.end_coordinator()
        world.first.busy_s = 8.0
        await world.start_coordinator()
        world.first.busy_s = 0.0
        assert world.ended == []
        world.write()
        await world.until(lambda: world.is_done and world.is_running, "all is counted", 60)

    played(tmp_path, whole)
