"""Operations of users through the coordinator's shell: what Ray keeps of them, and calls that Ray repeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from ray.exceptions import RpcError
from structlog.testing import capture_logs

from penstock.actors.process import ray_kv
from penstock.cluster.coordinator_shell import keeping, kept_operations
from penstock.cluster.coordinator_shell.user_operations import UserOperations
from penstock.cluster.events import ActorLost, Event, RestartActorRequested, SetWishes, Timer, TimerFired
from penstock.cluster.placement.standby_assignor import StandbyPolicy
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.placement import Cluster
from tests.cluster.simulated_application import QUIET

ACTOR = "a1"
TASK = TaskId(0, 0)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Returns what Ray keeps."""
    values: dict[str, bytes] = {}

    def put(key: str, value: str | bytes) -> None:
        values[key] = value.encode() if isinstance(value, str) else value

    monkeypatch.setattr(ray_kv, "put", put)
    monkeypatch.setattr(ray_kv, "get", values.get)
    monkeypatch.setattr(ray_kv, "delete", lambda key: values.pop(key, None))
    return values


def ray_keeps_nothing_at_first(monkeypatch: pytest.MonkeyPatch, *, times: int) -> None:
    away: Callable[[str], Exception] = RpcError  # it has no types
    put, failures = ray_kv.put, iter([away("the head node is away")] * times)

    def fail_or_put(key: str, value: str | bytes) -> None:
        for failure in failures:
            raise failure
        put(key, value)

    monkeypatch.setattr(keeping, "_AGAIN_S", 0.0)
    monkeypatch.setattr(ray_kv, "put", fail_or_put)


class FakeDispatcher(NamedTuple):
    """Feeds the machine, as the dispatcher does, and gives its wishes to be kept."""

    cluster: Cluster
    operations: UserOperations

    @property
    def machine(self) -> Any:
        return self.cluster.machine

    def feed(self, event: Event) -> None:
        self.cluster.reported.clear()
        self.cluster(event)
        for it in self.cluster.reported:
            if isinstance(it, SetWishes):
                self.operations.wished(it.wishes)


def playing(play: Callable[[FakeDispatcher, UserOperations], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        spawned: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            spawned.append(asyncio.get_running_loop().create_task(work))

        operations = UserOperations(lambda: ACTOR, spawn, QUIET)
        cluster = Cluster(StandbyPolicy(), TaskPlan((SubtopologyTasks(0, {"lines": 4}),)))
        cluster.on("a", "b")
        await play(FakeDispatcher(cluster, operations), operations)
        await asyncio.gather(*spawned)

    asyncio.run(run())


def test_a_wish_that_is_accepted_is_kept_and_a_restarted_coordinator_has_it() -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        assert await operations.move(dispatcher, TASK, "stream/2") is None
        wishes = Wishes({TASK: "stream/2"}, frozenset({"stream/1", "stream/2"}))
        assert kept_operations.load_wishes(ACTOR) == wishes
        restarted = UserOperations(lambda: ACTOR, lambda _: None, QUIET)
        await restarted.load()
        assert restarted.wishes == wishes
        assert await operations.move(dispatcher, TASK, "stream/2") is None, "Ray repeats the call"

    playing(play)


def test_a_wish_is_saved_when_ray_can_keep_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_keeps_nothing_at_first(monkeypatch, times=2)

    async def play(dispatcher: Any, operations: UserOperations) -> None:
        assert await operations.move(dispatcher, TASK, "stream/2") is None
        assert kept_operations.load_wishes(ACTOR).by_task == {TASK: "stream/2"}

    playing(play)


def test_calls_that_wait_until_ray_keeps_them_restart_an_actor_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is told that the coordinator does not answer tries again."""
    ray_keeps_nothing_at_first(monkeypatch, times=1)

    async def play(dispatcher: Any, operations: UserOperations) -> None:
        fed: list[Event] = []

        def feed(event: Event) -> None:
            fed.append(event)
            dispatcher.feed(event)

        it: Any = SimpleNamespace(machine=dispatcher.machine, feed=feed)
        calls = (operations.restart(it, "stream/1", call) for call in ("call 1", "call 2"))
        assert await asyncio.gather(*calls) == [None, None]
        assert fed == [RestartActorRequested("stream/1")]

    playing(play)


def test_while_ray_keeps_nothing_the_log_has_one_line_and_a_pause_between_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    away: Callable[[str], Exception] = RpcError  # it has no types
    failures = iter([away("away"), away("away"), None])

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    def save() -> None:
        if (failure := next(failures)) is not None:
            raise failure

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with capture_logs() as logged:
        asyncio.run(keeping.until_kept(save, logger(__name__)))
    assert [(line["event"], line["log_level"]) for line in logged] == [("Ray keeps no values", "error")]
    assert pauses == [5.0, 5.0]


def test_a_wish_that_ends_is_not_kept_any_longer() -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        assert await operations.move(dispatcher, TASK, "stream/2") is None
        dispatcher.feed(ActorLost("stream/1"))
        dispatcher.feed(TimerFired(Timer.WAIT_FOR_ACTORS))

    playing(play)
    assert kept_operations.load_wishes(ACTOR) == NO_WISHES


def test_a_refused_move_is_not_kept(kept: dict[str, bytes]) -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        assert await operations.move(dispatcher, TASK, "stream/1") == "task 0_0 is on stream/1 already"
        assert await operations.move(dispatcher, TASK, "stream/9") is not None
        assert kept == {}

    playing(play)


def test_a_repeated_call_restarts_an_actor_once() -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        assert await operations.restart(dispatcher, "stream/1", "call 1") is None
        assert await operations.restart(dispatcher, "stream/1", "call 1") is None
        assert await operations.restart(dispatcher, "stream/1", "call 2") == "stream/1 is ending"
        dispatcher.cluster.end_those_that_stop()
        restarted = UserOperations(lambda: ACTOR, lambda _: None, QUIET)
        await restarted.load()
        assert await restarted.restart(dispatcher, "stream/1", "call 1") is None

    playing(play)


def test_a_call_that_was_kept_but_not_carried_out_is_carried_out_when_ray_repeats_it() -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        kept_operations.save_calls(ACTOR, {"call 1": "stream/1"})
        await operations.load()
        fed: list[Event] = []
        it: Any = type("Fed", (), {"machine": dispatcher.machine, "feed": staticmethod(fed.append)})
        assert await operations.restart(it, "stream/1", "call 1") is None
        assert fed == [RestartActorRequested("stream/1")]

    playing(play)


def test_only_the_last_calls_are_kept() -> None:
    async def play(dispatcher: Any, operations: UserOperations) -> None:
        kept_operations.save_calls(ACTOR, {f"call {number}": "stream/9" for number in range(20)})
        await operations.load()
        await operations.restart(dispatcher, "stream/1", "a new call")
        calls = kept_operations.load_calls(ACTOR)
        assert len(calls) == 20
        assert "a new call" in calls
        assert "call 19" not in calls

    playing(play)


def test_nothing_is_left_of_an_application_that_has_ended(kept: dict[str, bytes]) -> None:
    kept_operations.save_wishes(ACTOR, NO_WISHES)
    kept_operations.save_calls(ACTOR, {"call": "stream/1"})
    kept_operations.delete(ACTOR)
    assert kept == {}
    assert kept_operations.load_wishes(ACTOR) == NO_WISHES
    assert kept_operations.load_calls(ACTOR) == {}
