"""A Ray cluster that a row may hurt. The test is no driver of it: drivers are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.elastic.cluster import add_node, head_without_cpus
from tests.faults.rig import Counting, called, eventually

ROOT = Path(__file__).parents[2]


class Driver:
    """A process that has started the application."""

    def __init__(self, ray: RayCluster, it: Counting, folder: Path, work: str = "") -> None:
        (folder / "armed").mkdir(exist_ok=True)
        config = json.dumps(it.settings)
        command = [
            sys.executable,
            "-m",
            "tests.faults.driver",
            ray.address,
            it.application_id,
            str(folder),
            config,
            work,
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=ray.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started = self._answer()

    def ask(self, command: str) -> dict[str, Any]:
        """Sends one command; returns its answer, or ``{"ended": code}`` if the process has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"ended": self.process.wait(30)}
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return {"ended": self.process.wait(30)}


@dataclass
class RayCluster:
    """A Ray cluster with its drivers. ``cluster``: Ray's own object, which starts and ends the nodes."""

    cluster: Any
    environment: dict[str, str]
    drivers: list[Driver] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address for ``ray.init`` and RAY_ADDRESS."""
        return str(self.cluster.address)

    def start(self, it: Counting, folder: Path, work: str = "") -> Driver:
        """Starts a driver; returns it when the application runs and has counted all that was sent."""
        self.drivers.append(Driver(self, it, folder, work))
        assert self.drivers[-1].started.get("state") == "RUNNING", self.drivers[-1].started
        it.send(100)
        eventually(lambda: it.processed() >= sum(it.sent.values()), "all that was sent is counted")
        return self.drivers[-1]

    def penstock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one command of penstock to its end."""
        command = [sys.executable, "-m", "penstock.cli.main", *arguments]
        env = self.environment | {"RAY_ADDRESS": self.address}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)

    def processes(self, title: str) -> list[psutil.Process]:
        """Returns Ray's living processes whose title begins with ``title``, such as ``ray::StreamActor``."""
        return called(title, psutil.Process())


@contextmanager
def ray_cluster(cpus: Sequence[int], **settings: str) -> Iterator[RayCluster]:
    """Runs a head without CPUs and a node for each of ``cpus``. ``settings``: environment variables of all."""
    shared = {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", **settings}
    before = {key: os.environ.get(key) for key in shared}
    os.environ.update(shared)
    with ExitStack() as stack:
        stack.callback(_restore, before)
        cluster = head_without_cpus()
        stack.callback(cluster.shutdown)
        for each in cpus:
            add_node(cluster, each)
        it = RayCluster(cluster, dict(os.environ))
        try:
            yield it
        finally:
            for driver in it.drivers:
                driver.process.kill()
                driver.process.wait()


def _restore(before: dict[str, str | None]) -> None:
    for key, value in before.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
