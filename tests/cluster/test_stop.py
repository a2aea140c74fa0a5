"""What ``stop_application`` says of the end of an application; actors are stand-ins, no Ray runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError

from penstock.actors.messages import ApplicationState, ApplicationStatus
from penstock.cluster import control
from penstock.common.errors import ApplicationStateError

STOPPED = ApplicationStatus("app", ApplicationState.NOT_RUNNING, 1, (), {})


class Coordinator:
    """Answers ``stop`` with each of ``answers`` in turn."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    @property
    def stop(self) -> Coordinator:
        return self

    def remote(self) -> Coordinator:
        return self


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Stop an application with this coordinator and so many actors left; what is left is always ended."""
    ended: list[str] = []

    def get(call: Coordinator, timeout: float) -> Any:
        answer = call.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("penstock.cluster.control.ray.get", get)
    monkeypatch.setattr(control, "end_actors", lambda application_id, _: ended.append(application_id))
    monkeypatch.setattr(control, "_AGAIN_S", 0)

    def stop_with(coordinator: Coordinator | None, actors: int = 0) -> ApplicationStatus | None:
        monkeypatch.setattr(control, "find_coordinator", lambda application_id: coordinator)
        monkeypatch.setattr(
            "penstock.cluster.control.StreamActorHandle.find", lambda application_id: [object()] * actors
        )
        try:
            return control.stop_application("app", 5)
        finally:
            assert ended == ["app"]

    return stop_with


class Names:
    """What bears the names of an application in Ray, and what is ended of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.coordinators: list[Any] = []
        self.ended: list[object] = []
        actor = SimpleNamespace(kill=lambda: self.ended.append("actor"))
        patch.setattr(control, "find_coordinator", lambda _: self.coordinators.pop(0))
        patch.setattr(control, "find_http", lambda _: "http")
        patch.setattr(control, "stop_http", self.ended.append)
        patch.setattr("penstock.cluster.control.StreamActorHandle.find", lambda _: [actor])
        patch.setattr("penstock.cluster.control.ray.kill", self.ended.append)
        patch.setattr("penstock.cluster.control.last_words.forget", lambda it: self.ended.append(f"words of {it}"))


def coordinator_named(name: str) -> Any:
    return SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name), status=None)


def test_what_is_left_of_an_application_is_ended_with_what_its_coordinator_would_still_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, coordinator = Names(monkeypatch), coordinator_named("a1")
    names.coordinators = [coordinator]
    control.end_actors("app", coordinator)
    assert names.ended == ["http", coordinator, "words of a1", "actor"]
    names.ended.clear()
    names.coordinators = [None]
    control.end_actors("app", coordinator)
    assert names.ended == ["http", "actor"], "its coordinator is gone"


def test_an_application_that_is_started_anew_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    names, before, after = Names(monkeypatch), coordinator_named("a1"), coordinator_named("a2")
    monkeypatch.setattr(control, "status_of", lambda _: STOPPED)
    names.coordinators = [before, after]
    control.make_room("app")
    names.coordinators = [None, after]
    control.make_room("app")
    assert names.ended == []


def test_the_last_status_is_what_the_coordinator_answers(stop: Callable[..., Any]) -> None:
    assert stop(Coordinator(STOPPED)) is STOPPED


def test_only_a_time_out_is_told_as_one(stop: Callable[..., Any]) -> None:
    assert stop(Coordinator(GetTimeoutError())) is None


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
