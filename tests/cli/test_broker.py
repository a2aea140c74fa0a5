"""``penstock broker`` as a user meets it: output, exit codes, and a broker that outlives the command."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local_broker.broker import LocalBroker, free_port
from tests.waiting import PATIENCE_S


def penstock(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "broker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.submission
def test_start_status_stop(tmp_path: Path) -> None:
    folder, port = tmp_path / "broker", free_port()
    try:
        started = penstock("start", "--port", str(port), "--dir", folder)
        assert started.returncode == 0, started.stderr
        assert f"Kafka 4.3.1 answers at 127.0.0.1:{port}" in started.stdout
        assert f"Stop it with: penstock broker stop --port {port} --dir {folder}" in started.stdout
        AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60)

        running = penstock("status", "--dir", folder)
        assert running.returncode == 0
        assert "running" in running.stdout
        assert f"127.0.0.1:{port}" in running.stdout
    finally:
        stopped = penstock("stop", "--dir", folder)
    assert stopped.returncode == 0
    assert stopped.stdout == f"The broker of {folder} is stopped; its data stays there\n"
    assert not LocalBroker(folder).status().alive
    assert penstock("status", "--dir", folder).returncode == 1
    assert "No broker runs in" in penstock("stop", "--dir", folder).stdout


def test_a_port_in_use_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = penstock("start", "--port", str(port), "--dir", tmp_path / "broker")
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines() == [
        f"Port {port} on 127.0.0.1 is in use by another process: stop that, or start the broker with another --port."
    ]


def test_an_application_that_never_started_is_reported(tmp_path: Path) -> None:
    absent = penstock("status", "--dir", tmp_path / "nothing")
    assert absent.returncode == 1
    assert absent.stdout.startswith("No broker has been started in")
    assert not (tmp_path / "nothing").exists()
    assert penstock("stop", "--dir", tmp_path / "nothing").returncode == 0
