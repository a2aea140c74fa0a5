"""The coordinator's Ray actor where its order of events matters; stream actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from penstock.actors.messages import ActorStatus, ApplicationState, CommitAnswer, CommitRequest, TaskState, TaskStatus
from penstock.cluster import coordinator_actor
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.coordinator_actor import CoordinatorActor
from penstock.cluster.dispatch import Dispatcher
from penstock.common.ids import TaskId
from penstock.topology.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.virtual_time import run

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 1}),))


class LivingActor:
    actor_id = "stream/1"
    ray_handle = None

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.killed = False

    async def status(self) -> ActorStatus:
        return ActorStatus(self.actor_id, "node", 1, 1, (TaskStatus(TaskId(0, 0), TaskState.RUNNING),))

    async def wait(self) -> str | None:
        await asyncio.Event().wait()
        return None

    async def stop(self) -> None:
        self.stopped.set()

    def kill(self) -> None:
        self.killed = True


class Restarted(CoordinatorActor):
    """Finds one living actor, but only when the test lets it."""

    def __init__(self, living: LivingActor) -> None:
        self.may_begin = asyncio.Event()
        self.living: Any = living
        self.looks = 0
        super().__init__("app", b"")

    async def _begin(self) -> None:
        await self.may_begin.wait()
        world = coordinator_actor._World(self, purger=None)  # type: ignore[arg-type]  # nothing is committed
        self._dispatcher = Dispatcher(Coordinator(PLAN, None, first_epoch=10), world, self._log)
        await self._dispatcher.recover([self.living])
        self._repeat(1.0, "look at nothing", self.look)

    async def look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("a bad moment")


@pytest.fixture(autouse=True)
def restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(was_current_actor_reconstructed=True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)


def test_a_stop_that_finds_the_coordinator_just_restarted_stops_the_actors_that_live() -> None:
    async def play() -> None:
        living = LivingActor()
        coordinator = Restarted(living)
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        coordinator.may_begin.set()
        status = await asyncio.wait_for(stopping, 10)
        assert status.state is ApplicationState.NOT_RUNNING
        assert living.stopped.is_set()
        assert living.killed

    run(play())


def test_work_that_fails_now_and_then_is_done_again_and_ends_nothing() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await asyncio.sleep(5)
        assert coordinator.looks > 2
        assert (await coordinator.status()).state is ApplicationState.CREATED
        await coordinator.stop()

    run(play())


def test_an_http_server_that_does_not_answer_does_not_hold_up_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(known_address=SimpleNamespace(remote=lambda: SimpleNamespace(future=Future)))
    monkeypatch.setattr(ray, "get_actor", lambda *_, **__: silent)

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        assert await asyncio.wait_for(coordinator._ask_http(), 60) is None
        coordinator._beginning.cancel()

    run(play())


def test_a_commit_before_there_is_a_seat_in_the_group_is_answered() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        request = CommitRequest("stream/1", 1, {}, 1)
        assert await coordinator.commit(request) == CommitAnswer(False, "the coordinator has no seat in the group")
        await coordinator.stop()
        assert not (await coordinator.commit(request)).accepted

    run(play())
