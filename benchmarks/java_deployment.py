"""Kafka Streams' side of ``deployment.py``: as many processes as there are nodes, each with one stream thread."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from benchmarks.baseline import NAME, Jdk, compile_program
from benchmarks.deployment import (
    CAUGHT_UP_LAG,
    COMMIT_INTERVAL_MS,
    PATIENCE_S,
    Deployment,
    Setting,
    Victim,
    source_of,
)
from benchmarks.measure import BenchmarkError
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients

_LOOK_EVERY_S = 0.1
_END_S = 60.0


@dataclass
class Instance:
    """One process. ``state`` is its last status line."""

    number: int
    process: subprocess.Popen[str]
    state: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.state = json.loads(line)

    def end(self) -> None:
        """Close it cleanly, if it lives."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()


class JavaDeployment(Deployment):
    """No process that was killed is replaced: after each loss all begin again, without state, so that tasks are spread
    again (Kafka Streams would move them back after ``probing.rebalance.interval.ms``, ten minutes)."""

    recovers_itself = False

    def __init__(
        self, command: list[str], state: Path, clients: ConfluentClients, output: str, setting: Setting
    ) -> None:
        self.name = NAME
        self.output = output
        self._command, self._state, self._setting = command, state, setting
        self._admin = clients.admin()
        self._group = clients.group
        self._instances: list[Instance] = []

    def start(self) -> None:
        """Start all processes, without state."""
        shutil.rmtree(self._state, ignore_errors=True)
        for number in range(self._setting.nodes):
            state = f"state.dir={self._state / str(number)}"
            process = subprocess.Popen(
                [*self._command, state],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            self._instances.append(Instance(number, process))

    def close(self) -> None:
        """End all processes."""
        instances, self._instances = self._instances, []
        for instance in instances:
            instance.end()

    @override
    def until_at_rest(self, but: str = "") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (self._has_settled() and self._has_processed()):
            if time.monotonic() > deadline:
                state = [instance.state for instance in self._instances]
                raise BenchmarkError(f"{self.name} is not at rest within {PATIENCE_S:.0f} s: {state}")
            time.sleep(_LOOK_EVERY_S)

    def _has_settled(self) -> bool:
        state = [instance.state for instance in self._instances]
        if not all(it.get("state") == "RUNNING" and it["active"] and 0 <= it["lag"] < CAUGHT_UP_LAG for it in state):
            return False
        active, standbys = sum(len(it["active"]) for it in state), sum(len(it["standby"]) for it in state)
        return active == self._setting.tasks and standbys == self._setting.tasks * self._setting.standbys

    def _has_processed(self) -> bool:
        source = source_of(self.output)
        ends = self._admin.end_offsets([TopicPartition(source, number) for number in range(self._setting.tasks)])
        committed = self._admin.committed(self._group)
        done = {tp: committed[tp].offset if tp in committed else 0 for tp in ends}
        return all(end - done[tp] < CAUGHT_UP_LAG for tp, end in ends.items())

    @override
    def busiest(self) -> Victim:
        instance = max(self._instances, key=lambda it: (len(it.state["active"]), it.number))
        return Victim(str(instance.number), instance.process.pid, tuple(sorted(instance.state["active"])))

    @override
    def kill(self, victim: Victim) -> None:
        os.kill(victim.pid, signal.SIGKILL)

    @override
    def recover(self) -> None:
        self.close()
        self.start()


def session_config(session_ms: int) -> dict[str, str]:
    """Returns settings for a session that ends ``session_ms`` after its process; Kafka's own default is 45,000."""
    return {"session.timeout.ms": str(session_ms), "heartbeat.interval.ms": str(min(3000, session_ms // 3))}


@contextmanager
def java_deployment(
    jdk: Jdk, work: Path, address: str, setting: Setting, output: str, settings: Mapping[str, str]
) -> Iterator[JavaDeployment]:
    """Kafka Streams with these ``settings`` in addition to its defaults; all ends with the block."""
    application_id = f"{output}-java"
    config = {
        "application.id": application_id,
        "bootstrap.servers": address,
        "processing.guarantee": setting.guarantee,
        "commit.interval.ms": str(COMMIT_INTERVAL_MS),
        "num.standby.replicas": str(setting.standbys),
        **settings,
    }
    class_path = compile_program(jdk, work / f"{output}-java", "Instance")
    entries = [f"{key}={value}" for key, value in config.items()]
    command = [str(jdk.java), "-cp", class_path, "Instance", source_of(output), output, *entries]
    clients = ConfluentClients(address, application_id)
    made = JavaDeployment(command, work / f"{output}-java-state", clients, output, setting)
    made.start()
    try:
        yield made
    finally:
        made.close()
