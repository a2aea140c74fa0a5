"""``penstock pause`` and ``penstock resume``; ``tests/cluster/test_life_end_to_end.py`` runs them on an application."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cluster.client import control
from penstock.cluster.ray_cluster import connections, named_actors
from penstock.common.errors import ApplicationStateError


def test_pause_and_resume_print_how_to_undo_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(connections, "connect_to", lambda application_id: None)
    monkeypatch.setattr(named_actors, "require_coordinator", lambda application_id: object())
    monkeypatch.setattr(control, "pause_application", lambda name, _, paused: asked.append((name, paused)))
    paused = CliRunner().invoke(app, ["pause", "word-count"])
    assert (paused.exit_code, asked) == (0, [("word-count", True)])
    assert "penstock resume word-count" in paused.stdout
    assert CliRunner().invoke(app, ["resume", "word-count"]).exit_code == 0
    assert asked[1:] == [("word-count", False)]


def test_pausing_a_failed_application_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ApplicationStateError("application 'word-count' is in state ERROR: boom")

    monkeypatch.setattr(connections, "connect_to", refuse)
    assert isinstance(CliRunner().invoke(app, ["pause", "word-count"]).exception, ApplicationStateError)
