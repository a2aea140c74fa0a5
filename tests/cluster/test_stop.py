"""What ``stop_application`` says of the end of an application; actors are stand-ins, no Ray runs."""

from __future__ import annotations

from collections.abc import Callable
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
    monkeypatch.setattr(control, "end_actors", ended.append)
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
