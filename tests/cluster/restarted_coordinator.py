"""A coordinator's Ray actor without Ray, and a stand-in for the stream actor that an earlier incarnation has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.experimental import internal_kv

import penstock as ps
from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Order, Pause, Stop
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import ActorEnd, ActorStatus, TaskState, TaskStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell import first_plan
from penstock.cluster.coordinator_shell.coordinator_actor import CoordinatorActor
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.periodic_work import PeriodicWork, Work
from penstock.cluster.coordinator_shell.ray_environment import RayEnvironment
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.history.history import History
from penstock.cluster.ray_cluster.running_lock import RunningLock
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.purger import Purger
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 1}),))
COPY = ps.StreamsBuilder()
COPY.stream("lines").to("copies")
SPEC: bytes = cloudpickle.dumps(  # type: ignore[no-untyped-call]  # untyped in Ray
    ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}))
)


class LivingActor:
    actor_id = "stream/1"
    ray_handle = None

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.killed = self.paused = False

    async def status(self, question_id: QuestionId) -> ActorStatus:
        tasks = (TaskStatus(TaskId(0, 0), TaskState.RUNNING),)
        return ActorStatus(self.actor_id, "node", 1, 1, tasks, paused=self.paused)

    async def heartbeat(self, question_id: QuestionId) -> bool:
        return not self.killed

    async def wait(self) -> ActorEnd:
        await asyncio.Event().wait()
        return ActorEnd()

    async def tell(self, order: Order) -> bool:
        if isinstance(order, Pause):
            self.paused = order.paused
        elif isinstance(order, Stop):
            self.stopped.set()
        return False

    insist = tell

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
        clients = ConfluentClients("127.0.0.1:1", "app")
        purger = Purger(frozenset(), clients.admin)
        machine = Coordinator(PLAN, None, first_epoch=10)
        self._history = History(machine, lambda: 0, restarted=True)
        world = RayEnvironment(
            self._deployments, clients, purger, self._history, self._operations, lambda: None, self._enter,
            spread=False, process_id="here",
        )  # fmt: skip
        self._dispatcher = Dispatcher(machine, world, self._pausing, self._log)
        await self._dispatcher.recover([self.living])
        self._repeat(Work(1.0, "look at nothing", self.look))

    async def look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("a bad moment")


def periodic_work_of(coordinator: CoordinatorActor) -> PeriodicWork:
    """Returns the coordinator's own periodic work, without a member of the group and without scaling."""
    assert coordinator._dispatcher is not None
    spec = ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}))
    nobody: Any = SimpleNamespace(waits_for=None)
    reported = coordinator._failed_by, lambda: coordinator._no_broker() is not None
    return PeriodicWork(
        spec,
        FakeClients("app"),
        coordinator._dispatcher,
        nobody,
        nobody,
        coordinator._pausing,
        *reported,
        lambda: spec,
        coordinator._log,
    )


@pytest.fixture(autouse=True)
def restarted(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """Each coordinator is one that Ray has restarted; what Ray keeps for it."""
    kept: dict[tuple[str, str], str] = {}

    def put(key: str, value: str, *, overwrite: bool, namespace: str) -> None:
        kept[namespace, key] = value

    def get(key: str, *, namespace: str) -> str | None:
        return kept.get((namespace, key))

    context = SimpleNamespace(was_current_actor_reconstructed=True, get_actor_id=lambda: "a1", gcs_address="here")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(RunningLock, "take", held_by_its_former_process)
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    monkeypatch.setattr(internal_kv, "_internal_kv_put", put)
    monkeypatch.setattr(internal_kv, "_internal_kv_get", get)
    return kept


def held_by_its_former_process(lock: RunningLock, within_s: float | None = None) -> None:
    raise ApplicationStateError("already runs")


async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> LivingActor:
    """The actor of an earlier incarnation that Ray shows."""
    it = LivingActor()
    monkeypatch.setattr(StreamActorHandle, "find", lambda _: [it])
    monkeypatch.setattr(ray, "get_actor", no_http)
    return it


def no_http(*_: object, **__: object) -> None:
    raise ValueError("there is none")


def refuse(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[float]:
    """Have the topics refused, the last way for ever; when they were looked at."""
    left, looks = list(errors), []

    def ensure_topics(*_: object) -> None:
        looks.append(asyncio.get_running_loop().time())
        raise left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(first_plan, "ensure_topics", ensure_topics)
    monkeypatch.setattr(ConfluentClients, "admin", lambda _: FakeClients("app").admin())
    return looks
