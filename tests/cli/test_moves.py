"""``penstock move-task`` and ``penstock restart-actor``, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cluster.client import actor_changes, operations_log
from penstock.cluster.ray_cluster import connections, named_actors
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TaskId


class Asked:
    """The coordinator's calls, its answer, and the lines of the operations log."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.logged: list[tuple[str, str]] = []
        self.refused: str | None = None

    def ask(self, coordinator: Any, *call: Any) -> str | None:
        self.calls.append(call)
        return self.refused


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    it = Asked()
    monkeypatch.setattr(connections, "connect_to", lambda application: None)
    monkeypatch.setattr(named_actors, "require_coordinator", lambda application: None)
    monkeypatch.setattr(actor_changes, "ask_coordinator", it.ask)
    monkeypatch.setattr(operations_log, "log_operation", lambda _, what, outcome: it.logged.append((what, outcome)))
    return it


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_a_task_moves(asked: Asked) -> None:
    done = run("move-task", "app", "1_3", "stream/2")
    assert done.exit_code == 0
    assert "Task 1_3 of application app moves to stream/2" in done.output
    assert asked.calls == [("move_task", TaskId(1, 3), "stream/2")]
    assert asked.logged == [("move task 1_3 to stream/2", "begun")]


def test_an_actor_restarts(asked: Asked) -> None:
    assert "another starts in its place" in run("restart-actor", "app", "stream/2").output
    ((method, name, call),) = asked.calls
    assert (method, name, len(call)) == ("restart_actor", "stream/2", 32)


def test_a_refusal_is_an_error_with_its_reason(asked: Asked) -> None:
    asked.refused = "stream/2 is ending"
    failed = run("restart-actor", "app", "stream/2").exception
    assert isinstance(failed, ApplicationStateError)
    assert str(failed) == "application 'app' does not restart stream/2: stream/2 is ending"
    assert asked.logged == [("restart stream/2", "refused: stream/2 is ending")]


def test_an_id_that_is_none_is_refused_before_anything_is_asked(asked: Asked) -> None:
    failed = run("move-task", "app", "1-3", "stream/2").exception
    assert isinstance(failed, ConfigError)
    assert "not a task id" in str(failed)
    assert asked.calls == []
