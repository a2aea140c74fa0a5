"""``penstock scale``, without a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cluster.client import actor_changes, control
from penstock.cluster.ray_cluster import connections, named_actors
from penstock.cluster.scaling_status import ActorCount, ScalingStatus
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError, ConfigError

COUNTS = (ActorCount(2, 8, 1.56, 210.4), ActorCount(4, 4, 0.78, 45.0), ActorCount(1, 16, 3.1, None))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Questions to the coordinator; it refuses more than 8."""
    calls: list[tuple[Any, ...]] = []

    def ask(coordinator: Any, *call: Any) -> str | None:
        calls.append(call)
        return "the maximum is 8 (max.stream.actors)" if call[1] > 8 else None

    scaling = ScalingStatus(2, 4, "it never catches up", True, 1, 8, COUNTS)
    status = ApplicationStatus("app", ApplicationState.RUNNING, 1, (), {}, scaling=scaling)
    monkeypatch.setattr(connections, "connect_to", lambda application: None)
    monkeypatch.setattr(control, "require_status", lambda application: status)
    monkeypatch.setattr(named_actors, "require_coordinator", lambda application: None)
    monkeypatch.setattr(actor_changes, "ask_coordinator", ask)
    return calls


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["scale", "app", *arguments])


def test_a_dry_run_explains_and_changes_nothing(asked: list[Any]) -> None:
    message = run("--dry-run").output
    assert "2 stream actors wanted; 4 from now on: it never catches up" in message
    assert "The number follows the load; possible: 1 to 8" in message
    rows = [" ".join(line.split()) for line in message.splitlines()]
    assert "2 8 156% 210 s now" in rows
    assert "4 4 78% 45 s advised" in rows
    assert "1 16 310% never" in rows
    assert asked == []


def test_the_same_as_json(asked: list[Any]) -> None:
    body = json.loads(run("--dry-run", "--json").output)
    assert (body["wanted"], body["advised"], body["automatic"]) == (2, 4, True)
    assert body["counts"][0] == {"actors": 2, "tasks_each": 8, "busiest": 1.56, "catch_up_s": 210.4}
    assert body["counts"][2]["catch_up_s"] is None


def test_a_number_is_set_or_the_refusal_is_printed(asked: list[Any]) -> None:
    assert "Application app is to have 6 stream actors" in run("6").output
    assert asked == [("set_stream_actors", 6)]
    refused = run("9").exception
    assert isinstance(refused, ApplicationStateError)
    assert "keeps its stream actors: the maximum is 8" in str(refused)


def test_a_request_for_more_actors_than_can_have_work_is_reported(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_changes, "ask_coordinator", lambda *call: None)
    assert run("8").output == "Application app is to have 8 stream actors\n"
    message = "Application app is to have 100 stream actors; no more than 8 while it has no more tasks than now\n"
    assert run("100").output == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "give the number of stream actors"), (("4", "--dry-run"), "--dry-run takes no number")],
)
def test_either_a_number_or_a_dry_run(asked: list[Any], arguments: tuple[str, ...], message: str) -> None:
    refused = run(*arguments).exception
    assert isinstance(refused, ConfigError)
    assert str(refused).startswith(message)
    assert asked == []
