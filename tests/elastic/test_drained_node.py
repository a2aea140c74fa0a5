"""``penstock drain-node`` waits for the stream actors of its own node, and for nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cluster.ray_cluster import connections
from tests.waiting import PATIENCE_S


@pytest.mark.submission
def test_the_command_ends_when_the_stream_actors_have_left_the_node() -> None:
    command = [sys.executable, "-m", "tests.elastic.drained_node"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-5000:]}"
    assert "a node was drained" in ended.stdout


def test_a_machine_without_ray_has_no_node_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "cluster_to_start_in", lambda: None)
    result = CliRunner().invoke(app, ["drain-node"])
    assert "this machine has no Ray node" in str(result.exception)
