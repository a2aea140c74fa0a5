"""The operations log: operations through Ray. A stand-in is asked in place of the coordinator."""

from __future__ import annotations

import contextlib
import getpass
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cluster.client import actor_changes, control, deploying
from penstock.cluster.client.actor_changes import ActorChanges
from penstock.cluster.client.operations_log import caller, log_operation
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError


class Coordinator:
    """Keeps what it hears of operations, and answers all calls with ``answer``."""

    def __init__(self, answer: Any = None) -> None:
        self.noted: list[tuple[str, str, str]] = []
        note = SimpleNamespace(remote=lambda *noted: self.noted.append(noted))
        self.operated = SimpleNamespace(options=lambda **_: note)
        self.pause = SimpleNamespace(remote=lambda _: answer)


@pytest.fixture(autouse=True)
def ray_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.get", lambda answer, timeout: answer)


def status(state: ApplicationState) -> ApplicationStatus:
    return ApplicationStatus("app", state, 1, (), {})


def test_the_caller_is_a_user_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert caller() == f"ada@{socket.gethostname()}"

    def nobody() -> str:
        raise KeyError("uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert caller() == f"unknown@{socket.gethostname()}"


@pytest.mark.parametrize(("paused", "what"), [(True, "pause"), (False, "resume")])
def test_the_user_that_paused_or_resumed_is_logged(paused: bool, what: str) -> None:
    coordinator = Coordinator(status(ApplicationState.RUNNING))
    control.pause_application("app", coordinator, paused)
    assert coordinator.noted == [(caller(), what, "done")]


def test_a_late_actor_is_also_killed() -> None:
    coordinator = Coordinator(status(ApplicationState.ERROR))
    with pytest.raises(ApplicationStateError):
        control.pause_application("app", coordinator, True)
    assert coordinator.noted == [(caller(), "pause", "state ERROR")]


@pytest.mark.parametrize(("answer", "outcome"), [("stream/3", "stream/3"), (None, "not possible")])
def test_the_user_that_adds_or_removes_an_actor_is_logged(
    answer: str | None, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_changes, "ask_coordinator", lambda *_: answer)
    changes, coordinator = ActorChanges(), Coordinator()
    changes._coordinator = coordinator
    changes.add_stream_actor()
    assert coordinator.noted == [(caller(), "add a stream actor", outcome)]


def test_without_a_coordinator_there_is_nobody_to_note_it() -> None:
    log_operation(None, "stop", "asked")


@pytest.mark.parametrize(("refused", "outcome"), [(None, "begun"), ("it ends", "refused: it ends")])
def test_the_user_that_deploys_is_logged(refused: str | None, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploying, "pickled_with_code", lambda spec: b"program")
    monkeypatch.setattr(deploying, "ask_coordinator", lambda *_: refused)
    coordinator = Coordinator()
    app: Any = SimpleNamespace(_spec=None, application_id="app")
    program: Any = None
    with contextlib.suppress(ApplicationStateError):
        deploying.begin_rollout(deploying.Running(coordinator, program, 4), app, 60.0)
    assert coordinator.noted == [(caller(), "deploy version 5", outcome)]
