"""Calls to stream actors; the actor is a stand-in, no Ray runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RaySystemError,
    RayTaskError,
)
from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy

from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Pause, Stop, Suspend
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.environment import (
    RELEASE_S,
    ActorEndedError,
    ActorFailedError,
    ActorLostError,
    ActorSilentError,
)
from penstock.common.errors import ApplicationStateError
from tests.cluster.virtual_time import run


@pytest.mark.parametrize(
    ("version", "avoiding"),
    [
        ((2, 60), {"scheduling_strategy": "DEFAULT", "label_selector": {"ray.io/node-id": "!in(n2,n3)"}}),
        ((2, 48), {"scheduling_strategy": [("ray.io/node_id", ["n2", "n3"])]}),
    ],
)
def test_an_actor_starts_on_no_node_that_is_to_be_avoided(
    version: tuple[int, int], avoiding: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    class Remote:
        def options(self, **options: Any) -> Remote:
            asked.append(options)
            return self

        def remote(self, *arguments: object) -> None:
            return None

    monkeypatch.setattr("ray.remote", lambda kind: Remote())
    monkeypatch.setattr("penstock.cluster.ray_cluster.ray_versions.VERSION", version)
    StreamActorHandle.create("app", "stream/1", 1, b"", "n1", spread=False, avoid=frozenset({"n2", "n3"}))
    StreamActorHandle.create("app", "stream/2", 1, b"", "", spread=True)
    placed = [
        {name: value for name, value in it.items() if name in ("scheduling_strategy", "label_selector")} for it in asked
    ]
    if isinstance(placed[0]["scheduling_strategy"], NodeLabelSchedulingStrategy):
        labels = placed[0]["scheduling_strategy"].hard
        placed[0]["scheduling_strategy"] = [(label.key, label.operator.values) for label in labels]
    assert placed == [avoiding, {"scheduling_strategy": "SPREAD"}]


class Flaky:
    """A method of a Ray actor that cannot be reached the first time."""

    def __init__(self) -> None:
        self.calls = 0

    def remote(self, *arguments: object) -> Flaky:
        return self

    def future(self) -> Future[None]:
        self.calls += 1
        answer: Future[None] = Future()
        if self.calls == 1:
            answer.set_exception(ActorUnavailableError("connection lost", b"\0" * 16))
        else:
            answer.set_result(None)
        return answer


class FlakyActor:
    def __init__(self) -> None:
        self.start = self.tell = self.wait = Flaky()


@pytest.mark.parametrize("method", ["start", "tell", "wait"])
def test_an_actor_that_cannot_be_reached_for_a_moment_is_called_again(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.coordinator_shell.stream_actor_handle._AGAIN_S", 0.0)
    monkeypatch.setattr("ray.get_actor", lambda *_: object())
    actor = FlakyActor()
    handle = StreamActorHandle("app", "stream/1", actor)
    calls = {"start": lambda: handle.start(1), "tell": lambda: handle.insist(Stop()), "wait": handle.wait}
    asyncio.run(calls[method]())
    assert getattr(actor, method).calls == 2


class Failing:
    """A method of a Ray actor that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def remote(self, *arguments: object) -> Failing:
        return self

    def future(self) -> Future[None]:
        answer: Future[None] = Future()
        answer.set_exception(self._error)
        return answer


def task_error(cause: Exception) -> RayTaskError:
    return RayTaskError("wait", "traceback", cause)  # type: ignore[no-untyped-call]  # untyped in Ray


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ActorDiedError(), ActorLostError),
        (OutOfMemoryError("low on memory"), ActorLostError),  # type: ignore[no-untyped-call]  # untyped in Ray
        (NodeDiedError("the node is gone"), ActorLostError),  # type: ignore[no-untyped-call]
        (RaySystemError("Ray itself"), ActorLostError),  # type: ignore[no-untyped-call]
        (task_error(ApplicationStateError("it has ended")), ActorEndedError),
        (task_error(ValueError("a bad record")), ActorFailedError),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, Exception) else "",
)
def test_an_error_of_ray_means_a_lost_actor_and_one_of_the_actor_itself_does_not(
    error: Exception, expected: type[Exception]
) -> None:
    class Actor:
        wait = Failing(error)

    with pytest.raises(expected):
        asyncio.run(StreamActorHandle("app", "stream/1", Actor()).wait())


@pytest.mark.parametrize(
    ("message", "has_ended"),
    [
        ("The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR", True),
        ("The actor is dead because it was killed by `ray.kill`.", False),
        ("The actor died because its node has died. Node Id: 1", False),
    ],
)
def test_only_its_own_node_can_report_that_the_process_of_an_actor_has_ended(message: str, has_ended: bool) -> None:
    error = ActorDiedError()
    error.error_msg = message

    class Actor:
        wait = Failing(error)

    with pytest.raises(ActorLostError) as lost:
        asyncio.run(StreamActorHandle("app", "stream/1", Actor()).wait())
    assert lost.value.has_ended is has_ended


class NeverAnswered:
    """A method of a Ray actor that takes its time."""

    def remote(self, *arguments: object) -> NeverAnswered:
        return self

    def future(self) -> Future[None]:
        return Future()


class Silent:
    tell = heartbeat = NeverAnswered()


def test_a_process_that_is_unresponsive_has_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cluster.coordinator_shell.stream_actor_handle.HEARTBEAT_S", 0.01)
    assert not asyncio.run(StreamActorHandle("app", "stream/1", Silent()).heartbeat(QuestionId(1, 1, 0)))


def test_an_order_that_is_not_insisted_on_does_not_kill_an_unresponsive_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.cluster.coordinator_shell.stream_actor_handle.STATUS_S", 0.01)
    monkeypatch.setattr("ray.kill", lambda _: pytest.fail("killed"))
    with pytest.raises(ActorSilentError, match="stream/1 does not answer"):
        asyncio.run(StreamActorHandle("app", "stream/1", Silent()).tell(Pause(True)))


def test_an_actor_whose_suspension_is_not_waited_for_any_longer_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a broker with its last commit, as all others do."""
    monkeypatch.setattr("ray.kill", lambda _: pytest.fail("killed"))

    async def story() -> None:
        handle = StreamActorHandle("app", "stream/1", Silent())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle.insist(Suspend(1)), 10 * RELEASE_S)

    run(story())
