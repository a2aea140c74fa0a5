"""``ray job submit``: an application as a job on a Ray that was started with ``ray start --head``."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import WordCount
from tests.cluster.test_command_line import ROOT, environment, penstock, write_program
from tests.waiting import eventually

RAY = str(Path(sys.executable).with_name("ray"))


def free_ports(count: int) -> list[int]:
    """Returns ports on which nothing listens."""
    sockets = [socket.socket() for _ in range(count)]
    for it in sockets:
        it.bind(("127.0.0.1", 0))
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


class Head:
    """``ray start --head`` as a child of ours: ended by its process group, so no other Ray is touched."""

    def __init__(self) -> None:
        self.temp_dir = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets in it: their paths must stay short
        gcs, dashboard, *agents = free_ports(6)
        names = (
            "dashboard-agent-listen-port",
            "dashboard-agent-grpc-port",
            "metrics-export-port",
            "ray-client-server-port",
        )
        # `ray start` asks for a token, the other commands send one only if configured: this cluster has its own.
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.dashboard = f"http://127.0.0.1:{dashboard}"
        command = [
            RAY, "start", "--head", "--block", f"--port={gcs}",
            "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--num-cpus=2",
            "--object-store-memory=100000000", f"--temp-dir={self.temp_dir}", "--disable-usage-stats",
            *(f"--{name}={port}" for name, port in zip(names, agents, strict=True)),
        ]  # fmt: skip
        self._log = Path(self.temp_dir, "start.log")
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                env=environment(**self.environment),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """The output of ``ray start``."""
        return self._log.read_text()

    @property
    def address(self) -> str:
        """The address for RAY_ADDRESS, whose host Ray chooses itself."""
        found = re.search(r"--address='([^']+)'", self.log)
        assert found is not None, self.log
        return found[1]

    def answers(self) -> bool:
        """Returns True if jobs can be submitted."""
        result = self.job("list")
        if result.returncode:
            print(result.stderr.strip().splitlines()[-1:])
        return result.returncode == 0

    def job(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one ``ray job`` command."""
        command = [RAY, "job", verb, "--address", self.dashboard, *arguments]
        env = environment(**self.environment)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)

    def status(self, job: str) -> str:
        """Returns the output of ``ray job status`` for a job."""
        result = self.job("status", job)
        return result.stdout + result.stderr

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(5)  # it mostly hangs if all its processes get the signal at once; nothing of it is needed
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        shutil.rmtree(self.temp_dir, ignore_errors=True)


@pytest.fixture
def head() -> Iterator[Head]:
    it = Head()
    try:
        eventually(lambda: "Ray runtime started" in it.log, "ray start --head")
        eventually(it.answers, "its dashboard")
        yield it
    finally:
        print(it.log)
        it.end()


# A row of the fault matrix: `make faults`.
@pytest.mark.faults
def test_an_application_runs_as_a_job_and_drains_when_the_job_is_stopped(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, head: Head
) -> None:
    it = WordCount(broker, topic_name("wc"), tmp_path / "state")
    it.send(["a b a", "c a"])
    (tmp_path / "work").mkdir()
    write_program(tmp_path / "work", it)
    runtime_env = {"env_vars": {"PYTHONPATH": str(ROOT), "RAY_JOB_STOP_WAIT_TIME_S": "60"}}
    name = f"job-{it.application_id}"
    submitted = head.job(
        "submit", "--submission-id", name, "--no-wait", "--working-dir", str(tmp_path / "work"),
        "--runtime-env-json", json.dumps(runtime_env),
        "--", sys.executable, "-m", "penstock.cli.main", "run", "program:app",
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr

    def logs() -> str:
        return head.job("logs", name).stdout

    try:
        eventually(lambda: "4/4 tasks run" in logs(), "running", 180)
    finally:
        print(head.status(name), logs())
    there = {"RAY_ADDRESS": head.address, **head.environment}
    shown = penstock(tmp_path, "query", it.application_id, "counts", "a", **there)
    assert shown.stdout == "3\n", shown.stderr
    assert head.job("stop", name).returncode == 0
    assert "all it processed is committed" in logs()
    assert it.complete()
