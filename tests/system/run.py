"""Kafka Streams' own system tests, with penstock in the place of Kafka Streams.

Its ``SmokeTestDriver`` and ``RelationalSmokeTest`` write the input and verify the results, from its published test jar.
Meanwhile penstock runs their programs, and is killed and started again at moments that a seed decides.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import ray
from ray.exceptions import RayError

from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.errors import ApplicationStateError
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.java import find_java
from penstock.topology.physical.topology import Topology
from tests.java import JVM_FLAGS, compiled, kafka_streams_jars
from tests.processes import is_alive, signal_ray_process
from tests.system.programs import RELATIONAL_TOPICS, SMOKE_TOPICS, relational, smoke
from tests.waiting import PATIENCE_S, eventually

_SOURCE = Path(__file__).parent / "java" / "Drive.java"
_PARTITIONS = 3
_VERIFIED_S = 420.0
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Program:
    """A program of Kafka Streams' system tests, with the settings that it has there."""

    name: str
    topology: Callable[[], Topology]
    topics: tuple[str, ...]
    settings: dict[str, Any]


SMOKE = Program("smoke", smoke, SMOKE_TOPICS, {"windowstore.changelog.additional.retention.ms": 3 * _DAY_MS})
RELATIONAL = Program(
    "relational",
    relational,
    RELATIONAL_TOPICS,
    {"windowstore.changelog.additional.retention.ms": 5 * _DAY_MS, "commit.interval.ms": 1000},
)
PLAYS = ((SMOKE, "exactly_once_v2"), (SMOKE, "at_least_once"), (RELATIONAL, "exactly_once_v2"))
"""As Kafka plays them. RelationalSmokeTest counts the rows of a table by another key: at least once, a crash may change
such counts, in Kafka Streams as in penstock (docs/RELIABILITY.md)."""


@dataclass(frozen=True)
class Size:
    """The amount of input: ``seconds`` of it; keys and records of each key for one program, articles and comments for
    the other; and the seconds between two strikes, at least and at most."""

    seconds: int
    smoke: tuple[int, int]
    relational: tuple[int, int]
    between_s: tuple[float, float]

    def of(self, program: Program) -> tuple[int, int]:
        """Returns the two sizes of the input of ``program``."""
        return self.smoke if program is SMOKE else self.relational


SHORT = Size(8, (10, 60), (40, 200), (2.0, 3.0))
LONG = Size(90, (20, 1000), (1000, 10_000), (8.0, 20.0))
"""The sizes of Kafka's own runs."""


class Driver:
    """The Java program that writes input and verifies results, compiled into ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._class_path = compiled([_SOURCE], kafka_streams_jars(), folder / "classes")

    def describe(self, program: Program) -> str:
        """Returns the description of the Java program's topology."""
        done = subprocess.run([*self._command(), "describe", program.name], capture_output=True, text=True, check=True)
        return done.stdout

    def _command(self) -> list[str]:
        # It logs the seed of its input, and what is wrong with results.
        logs = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.tests.RelationalSmokeTest=info"
        return [str(find_java().executable), *JVM_FLAGS, logs, "-cp", self._class_path, _SOURCE.stem]

    @contextmanager
    def driving(self, program: Program, broker: str, guarantee: str, size: Size) -> Iterator[Driving]:
        """Yields the run of one program, which is ended if it has not ended by itself."""
        numbers = map(str, (size.seconds, *size.of(program)))
        process = subprocess.Popen(
            [*self._command(), "drive", program.name, broker, guarantee, *numbers],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        driving = Driving(process)
        try:
            yield driving
        finally:
            process.kill()
            process.wait()


class Driving:
    """A run of the driver, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self.generated = threading.Event()
        """Set when all input is written, or the driver has ended."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if " sent in-" not in line:
                self._lines.append(line.rstrip())
            if line.startswith("GENERATED"):
                self.generated.set()
        self.generated.set()

    def verdict(self) -> str:
        """Returns the driver's last words, once it has verified: PASSED, or what has failed with the end of its
        output."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_VERIFIED_S)
        self._reader.join(10)
        last = self._lines[-1] if self._lines else ""
        if last == "PASSED":
            return last
        seeds = [line for line in self._lines if "seed" in line]
        return "\n".join([*seeds, *self._lines[-40:]])


class Struck:
    """A program as an application of penstock, which is killed and started again."""

    def __init__(self, program: Program, broker: str, guarantee: str, folder: Path, seed: int) -> None:
        self._program = program
        self._random = Random(f"{program.name} {guarantee} {seed}")
        self._config = {
            "application.id": f"system-{program.name}",
            "bootstrap.servers": broker,
            "processing.guarantee": guarantee,
            "state.dir": folder / program.name,
            "application.server": "",
            "tasks.per.actor": 12,
            **program.settings,
        }
        self._clients = ConfluentClients(broker, f"system-{program.name}")
        self.strikes: list[str] = []

    @property
    def _id(self) -> str:
        return str(self._config["application.id"])

    def _start(self) -> None:
        self._app = KafkaStreams(self._program.topology(), self._config)
        self._app.start(serve=False)

    def strike_until(self, generated: threading.Event, size: Size) -> None:
        """Kills a stream actor, the coordinator or everything, in turn, until all input is written."""
        kinds: list[str] = []
        while not generated.wait(self._random.uniform(*size.between_s)):
            self._app.wait_until_running(PATIENCE_S)
            if not kinds:
                kinds = ["stream actor", "application", "coordinator"]
                self._random.shuffle(kinds)
            self.strikes.append(kinds.pop())
            self._strike(self.strikes[-1])
        self._app.wait_until_running(PATIENCE_S)

    def _strike(self, kind: str) -> None:
        coordinator = find_coordinator(self._id)
        if kind == "application":
            end_actors(self._id, coordinator)
            self._start()
        elif kind == "coordinator":
            assert coordinator is not None
            signal_ray_process(ray.get(coordinator.process.remote(), timeout=PATIENCE_S).pid)
        else:
            signal_ray_process(self._random.choice(self._living()))

    def _living(self) -> list[int]:
        """Waits until stream actors live; returns their pids. An actor that was struck before may still be listed."""
        found: list[int] = []

        def any_lives() -> bool:
            with suppress(ApplicationStateError, RayError):
                found[:] = [actor.pid for actor in self._app.status().actors if is_alive(actor.pid)]
            return bool(found)

        eventually(any_lives, "a stream actor that lives")
        return found

    def __enter__(self) -> Self:
        self._clients.admin().create_topics([NewTopic(topic, _PARTITIONS) for topic in self._program.topics])
        self._start()
        self._app.wait_until_running(PATIENCE_S)
        return self

    def __exit__(self, *exception: object) -> None:
        end_actors(self._id, find_coordinator(self._id))
        admin = self._clients.admin()
        internal = {topic for topic in admin.topics() if topic.startswith(f"{self._id}-")}
        admin.delete_topics({*self._program.topics, *internal})
        shutil.rmtree(self._config["state.dir"], ignore_errors=True)


def system_test(
    driver: Driver, program: Program, broker: str, guarantee: str, size: Size, folder: Path, seed: int
) -> str:
    """Runs one program while it is struck; returns the driver's verdict. Prints the seed and the strikes."""
    begun = time.monotonic()
    with (
        Struck(program, broker, guarantee, folder, seed) as struck,
        driver.driving(program, broker, guarantee, size) as driving,
    ):
        struck.strike_until(driving.generated, size)
        verdict = driving.verdict()
    seconds = time.monotonic() - begun
    print(f"{program.name}, {guarantee}, seed {seed}: killed {', '.join(struck.strikes)}; {seconds:.0f} s")
    return verdict
