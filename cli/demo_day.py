"""A folder in which a demo types commands: each is shown, then run as a user's shell would run it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin

_ADDRESS = re.compile(r"http://\S+")
_LOOK_EACH_S = 0.5
_DRAIN_S = 120.0


class Day:
    """The shell of the demo: steps, their commands, and the applications that run behind it."""

    def __init__(self, folder: Path, console: Console, ray_address: str) -> None:
        self._folder = folder
        self._console = console
        self._environment = _environment(ray_address)
        self._running: dict[str, Application] = {}
        self._steps = 0
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def step(self, title: str, why: str) -> None:
        """Begin the next step of the story."""
        self._steps += 1
        heading = f"{self._steps}. {title}"
        self._console.print()
        # In a pipe a rule has no meaningful width.
        self._console.print(Rule(heading, align="left", style="cyan") if self._console.is_terminal else heading)
        self._console.print(Text(why, style="dim"))

    def export(self, name: str, value: str) -> None:
        """Set a variable of all later commands."""
        self._show(f"export {name}={value}")
        self._environment[name] = value

    def run(self, command: str, expected: int = 0) -> None:
        """Run a command line to its end. Raises StreamsError for another exit code than ``expected``."""
        self._show(command)
        code = subprocess.run(["sh", "-c", command], cwd=self._folder, env=self._environment, check=False).returncode
        if code < 0 or code == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        if code != expected:
            raise StreamsError(f"this command ended with exit code {code}, not {expected}: {command}")
        if code:
            self._console.print(f"exit code {code}", style="dim")

    def at_the_end(self, command: str) -> None:
        """Run a command line, unseen, when the demo ends, after the applications have ended."""
        self._closing.callback(
            subprocess.run, ["sh", "-c", command], cwd=self._folder, env=self._environment, stdout=subprocess.DEVNULL
        )

    def start(self, application_id: str, target: str, log: str) -> None:
        """Run an application behind the other commands, with its output in a file; returns when it runs."""
        self._show(f"penstock run {target} > {log} 2>&1 &")
        with (self._folder / log).open("wb") as file:
            process = subprocess.Popen(
                ["penstock", "run", target], cwd=self._folder, env=self._environment, stdout=file,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        running = Application(application_id, process, self._folder / log)
        self._running[application_id] = running
        self._closing.callback(running.end)
        with self._console.status(f"{application_id} starts"):
            running.wait_until_running()
        self._console.print(f"{application_id} runs and answers at {running.address}/docs")

    def stop(self, application_id: str) -> None:
        """Stop an application that was started."""
        self.run(f"penstock stop {application_id}")
        self._running.pop(application_id).wait()

    def caught_up(self, application_id: str, topics: Sequence[str]) -> None:
        """Wait until an application has committed all records of ``topics``, which it reads, and of its repartition
        topics."""
        clients = ConfluentClients(self._environment["PENSTOCK_BOOTSTRAP_SERVERS"], application_id)
        with self._console.status(f"{application_id} processes the new records"):
            self._running[application_id].wait_until_caught_up(clients.admin(), topics)

    def _show(self, command: str) -> None:
        self._console.print()
        self._console.print(Text(f"$ {command}", style="bold green"), soft_wrap=True)
        self._console.file.flush()


class Application:
    """A ``penstock run`` in a process of its own."""

    def __init__(self, application_id: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._id = application_id
        self._process = process
        self._log = log
        self.address = ""

    def wait_until_running(self) -> None:
        """Return when it runs and serves HTTP. Raises StreamsError with its output if it ends."""
        while not self._runs():
            time.sleep(_LOOK_EACH_S)

    def _runs(self) -> bool:
        self._require_alive()
        for line in self._log.read_text(errors="replace").splitlines():
            if line.startswith(f"{self._id}  ") and (found := _ADDRESS.search(line)):
                self.address = found[0]
                status = self._status()
                return status is not None and status["state"] == "RUNNING"
        return False

    def wait_until_caught_up(self, admin: Admin, topics: Sequence[str]) -> None:
        """Return when all records of ``topics`` and of its repartition topics are committed. The counts of its tasks
        do not show it: a task that moves counts from zero again."""
        while not self._has_caught_up(admin, topics):
            self._require_alive()
            time.sleep(_LOOK_EACH_S)

    def _has_caught_up(self, admin: Admin, topics: Sequence[str]) -> bool:
        partitions_of = admin.topics()
        # By their names: a repartition topic has no commit before its first record is processed.
        own = [topic for topic in partitions_of if topic.startswith(f"{self._id}-") and topic.endswith("-repartition")]
        read = [TopicPartition(topic, number) for topic in (*topics, *own) for number in range(partitions_of[topic])]
        # A commit comes after the records that it leads to in repartition topics. So ends that are asked for after the
        # commits include these records.
        committed = admin.committed(self._id, read)
        return all(
            tp in committed and committed[tp].offset >= end for tp, end in admin.end_offsets(read).items() if end
        )

    def _status(self) -> Any:
        """Returns what its HTTP server answers; None if it does not answer now."""
        try:
            return httpx.get(f"{self.address}/v1/applications/{self._id}").raise_for_status().json()
        except httpx.HTTPError:
            return None

    def _require_alive(self) -> None:
        if self._process.poll() is not None:
            raise StreamsError(f"{self._id} has ended:\n{self._log.read_text(errors='replace')}")

    def wait(self) -> None:
        """Wait for the end of the process."""
        self._process.wait(_DRAIN_S)

    def end(self) -> None:
        """End the process if it still runs: it drains and commits."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_DRAIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _environment(ray_address: str) -> dict[str, str]:
    """Returns the environment of commands: with this environment's programs first, and no Ray but the demo's."""
    folder = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "RAY_ADDRESS": ray_address}


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
