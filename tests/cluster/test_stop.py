"""Reports of a driver about an application that ends, and about a coordinator that does not answer; actors are
stand-ins, no Ray runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    NodeDiedError,
    OutOfMemoryError,
)

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client import control, starting
from penstock.cluster.client.http_actor import start_http, stop_http
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError

STOPPED = ApplicationStatus("app", ApplicationState.NOT_RUNNING, 1, (), {})


class Coordinator:
    """Answers each call with the next of ``answers``."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.noted: list[Any] = []

    @property
    def stop(self) -> Coordinator:
        return self

    status = ready = address = stop

    def remote(self, leave: bool = False) -> Coordinator:
        return self


@pytest.fixture(autouse=True)
def ray_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(call: Coordinator, timeout: float) -> Any:
        answer = call.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("ray.get", get)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Stop an application with this coordinator and so many actors left; what is left is always ended."""
    ended: list[str] = []
    monkeypatch.setattr(control, "log_operation", lambda coordinator, *noted: coordinator.noted.append(noted))
    monkeypatch.setattr(control, "end_actors", lambda application_id, _: ended.append(application_id))
    monkeypatch.setattr(control, "_AGAIN_S", 0)

    def stop_with(coordinator: Coordinator | None, actors: int = 0, leave: bool = False) -> ApplicationStatus | None:
        monkeypatch.setattr(control, "find_coordinator", lambda application_id: coordinator)
        monkeypatch.setattr(
            "penstock.cluster.client.control.StreamActorHandle.find", lambda application_id: [object()] * actors
        )
        try:
            return control.stop_application("app", 5, leave)
        finally:
            assert ended == ["app"]
            assert coordinator is None or coordinator.noted == [("stop", "asked")]

    return stop_with


class Names:
    """Names of an application in Ray, and those of its actors that are ended."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.coordinators: list[Any] = []
        self.ended: list[object] = []
        actor = SimpleNamespace(kill=lambda: self.ended.append("actor"))
        patch.setattr(control, "find_coordinator", lambda _: self.coordinators.pop(0))
        patch.setattr(control, "find_http_actor", lambda _: "http")
        patch.setattr(control, "stop_http", self.ended.append)
        patch.setattr("penstock.cluster.client.control.StreamActorHandle.find", lambda _: [actor])
        patch.setattr("penstock.cluster.client.control.ray.kill", self.ended.append)
        patch.setattr(
            "penstock.cluster.client.control.final_state.delete", lambda it: self.ended.append(f"final state of {it}")
        )
        patch.setattr(
            "penstock.cluster.client.control.wanted_count.delete", lambda it: self.ended.append(f"count of {it}")
        )
        patch.setattr(
            "penstock.cluster.client.control.kept_rollout.delete", lambda it: self.ended.append(f"rollout of {it}")
        )
        patch.setattr(
            "penstock.cluster.client.control.kept_operations.delete", lambda it: self.ended.append(f"wishes of {it}")
        )


def coordinator_named(name: str) -> Any:
    return SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name), status=None)


def test_leftover_actors_of_an_application_end_and_the_coordinators_last_answer_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, coordinator = Names(monkeypatch), coordinator_named("a1")
    names.coordinators = [coordinator]
    control.end_actors("app", coordinator)
    assert names.ended == [
        "http",
        coordinator,
        "final state of a1",
        "count of a1",
        "rollout of a1",
        "wishes of a1",
        "actor",
    ]
    names.ended.clear()
    names.coordinators = [None]
    control.end_actors("app", coordinator)
    assert names.ended == ["http", "actor"], "its coordinator is gone"


def test_an_application_that_is_started_again_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    names, before, after = Names(monkeypatch), coordinator_named("a1"), coordinator_named("a2")
    monkeypatch.setattr(control, "status_of", lambda _: STOPPED)
    names.coordinators = [before, after]
    control.remove_ended("app")
    names.coordinators = [None, after]
    control.remove_ended("app")
    assert names.ended == []


def test_the_last_status_is_what_the_coordinator_answers(stop: Callable[..., Any]) -> None:
    assert stop(Coordinator(STOPPED)) is STOPPED


def test_only_a_timeout_is_reported_as_one(stop: Callable[..., Any]) -> None:
    assert stop(Coordinator(GetTimeoutError())) is None


@pytest.mark.parametrize("coordinator", [None, Coordinator(ActorDiedError())])
def test_a_group_that_nobody_was_left_to_leave_is_an_error(
    coordinator: Coordinator | None, stop: Callable[..., Any]
) -> None:
    # Kafka Streams in Java ends in ERROR if it starts now.
    with pytest.raises(ApplicationStateError, match="not left its consumer group: its coordinator had ended before"):
        stop(coordinator, leave=True)


def test_a_coordinator_that_is_gone_with_all_actors_was_stopped_by_another_command(stop: Callable[..., Any]) -> None:
    status = stop(Coordinator(ActorDiedError()), actors=0)
    assert status.state is ApplicationState.NOT_RUNNING
    assert status.error is None


def test_a_coordinator_that_was_gone_before_is_the_same(stop: Callable[..., Any]) -> None:
    assert stop(None).state is ApplicationState.NOT_RUNNING


def test_a_coordinator_that_is_gone_while_actors_work_was_ended_by_force(stop: Callable[..., Any]) -> None:
    with pytest.raises(ApplicationStateError, match="ended by force while its actors worked"):
        stop(Coordinator(ActorDiedError()), actors=2)


def test_a_coordinator_that_is_being_restarted_is_asked_again(stop: Callable[..., Any]) -> None:
    away = ActorUnavailableError("its node does not answer", None)
    assert stop(Coordinator(away, away, STOPPED)) is STOPPED


AWAY = ActorUnavailableError("its node does not answer", None)


def test_the_status_of_a_coordinator_that_is_being_restarted_is_to_be_asked_for_again() -> None:
    coordinator = Coordinator(AWAY, STOPPED)
    with pytest.raises(ApplicationStateError, match="is being restarted: ask again"):
        control.status_of(coordinator)
    assert control.status_of(coordinator) is STOPPED


def test_a_coordinator_that_is_gone_has_no_status() -> None:
    assert control.status_of(Coordinator(ActorDiedError())) is None


def test_nothing_of_an_application_is_ended_while_its_coordinator_is_being_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "find_coordinator", lambda application_id: Coordinator(AWAY))
    monkeypatch.setattr(control, "end_actors", lambda application_id: pytest.fail("a running application was ended"))
    with pytest.raises(ApplicationStateError, match="is being restarted"):
        control.remove_ended("app")


LOST = [
    OutOfMemoryError("killed by the memory monitor"),  # type: ignore[no-untyped-call]  # untyped in Ray
    ActorDiedError(),
    NodeDiedError("its node is lost"),  # type: ignore[no-untyped-call]  # untyped in Ray
    GetTimeoutError(),
]


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> Callable[[Coordinator], list[object]]:
    """Let Ray create this as the next actor; what is killed since then."""
    killed: list[object] = []

    def create(actor: Coordinator) -> list[object]:
        remote = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: actor))
        context = SimpleNamespace(get_node_id=lambda: "0" * 56)
        monkeypatch.setattr("ray.remote", lambda cls: remote)
        monkeypatch.setattr("ray.kill", killed.append)
        monkeypatch.setattr("ray.get_runtime_context", lambda: context)
        monkeypatch.setattr("ray.get_actor", lambda name, namespace: actor)
        return killed

    return create


@pytest.mark.parametrize("error", LOST, ids=lambda it: type(it).__name__)
def test_a_coordinator_that_does_not_come_up_leaves_no_actor_behind(
    created: Callable[[Coordinator], list[object]], error: Exception
) -> None:
    coordinator = Coordinator(error)
    killed = created(coordinator)
    builder = ps.StreamsBuilder()
    builder.stream("lines").to("copies")
    spec = ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "app"}))
    with pytest.raises(ApplicationStateError, match="coordinator of application 'app'"):
        starting.start_coordinator(spec)
    assert killed == [coordinator]


@pytest.mark.parametrize("error", LOST, ids=lambda it: type(it).__name__)
def test_an_http_server_that_does_not_come_up_leaves_no_actor_behind(
    created: Callable[[Coordinator], list[object]], error: Exception
) -> None:
    actor = Coordinator(error)
    killed = created(actor)
    with pytest.raises(ApplicationStateError, match="HTTP server of application 'app'"):
        start_http("app", ServerSettings(), _serve)
    assert killed == [actor]


@pytest.mark.parametrize("error", LOST, ids=lambda it: type(it).__name__)
def test_an_http_server_that_cannot_be_asked_to_stop_is_ended(
    created: Callable[[Coordinator], list[object]], error: Exception
) -> None:
    actor = Coordinator(error)
    killed = created(actor)
    stop_http(actor)
    assert killed == [actor]


@pytest.mark.parametrize(("error", "is_said"), [(ActorDiedError(), False), (GetTimeoutError(), True)])
def test_an_http_server_that_somebody_else_has_ended_is_no_warning(
    created: Callable[[Coordinator], list[object]], capsys: pytest.CaptureFixture[str], error: Exception, is_said: bool
) -> None:
    actor = Coordinator(error)
    created(actor)
    stop_http(actor)
    assert ("HTTP server did not stop cleanly" in capsys.readouterr().err) == is_said


async def _serve(*_: object) -> None:
    raise AssertionError("nothing is served here")


def test_a_second_start_is_refused_and_points_to_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    running = ApplicationStatus("app", ApplicationState.RUNNING, 1, (), {})
    monkeypatch.setattr(control, "find_coordinator", lambda _: object())
    monkeypatch.setattr(control, "status_of", lambda _: running)
    with pytest.raises(ApplicationStateError, match=r"penstock stop app', .* 'penstock deploy', or"):
        control.remove_ended("app")
