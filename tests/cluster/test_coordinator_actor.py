"""The coordinator's shell where its order of events matters; stream actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.actors.messages import ApplicationState
from penstock.cluster import coordinator_actor, events
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.coordinator_actor import CoordinatorActor
from penstock.common.ids import TaskId
from penstock.topology.task_plan import SubtopologyTasks, TaskPlan

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 1}),))


class LivingActor:
    actor_id = "stream/1"

    def __init__(self) -> None:
        self.drained = False

    async def stop(self) -> None:
        self.drained = True


class Restarted(CoordinatorActor):
    """Finds one living actor, but only when the test lets it."""

    def __init__(self, living: LivingActor) -> None:
        self.may_begin = asyncio.Event()
        self.living: Any = living
        super().__init__("app", b"")

    async def _begin(self) -> None:
        await self.may_begin.wait()
        self._machine = Coordinator(PLAN, None, first_epoch=10)
        await asyncio.sleep(0)  # the living are asked
        self._handles[self.living.actor_id] = self.living
        self._feed(events.ActorRecovered(self.living.actor_id, 1, frozenset({TaskId(0, 0)})))


def test_a_stop_that_finds_the_coordinator_just_restarted_drains_the_actors_that_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = SimpleNamespace(was_current_actor_reconstructed=True)
    monkeypatch.setattr(coordinator_actor, "ray", SimpleNamespace(get_runtime_context=lambda: context))

    async def run() -> None:
        living = LivingActor()
        coordinator = Restarted(living)
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        coordinator.may_begin.set()
        status = await asyncio.wait_for(stopping, 10)
        assert status.state is ApplicationState.NOT_RUNNING
        assert living.drained

    asyncio.run(run())
