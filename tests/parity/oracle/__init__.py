"""Kafka Streams itself, playing parity cases: a Java program on the real ``TopologyTestDriver``, kept running.

The program is compiled from the sources beside this file for the version of Kafka Streams that is asked for; its jars
are fetched once and kept where the local broker's are.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import typer

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker.jars import KAFKA_VERSION
from penstock.kafka.local_broker.java import find_java
from tests.java import JVM_FLAGS, JavaError, compiled, kafka_streams_jars

Case = dict[str, Any]

__all__ = ["KAFKA_VERSION", "Case", "KafkaStreams", "OracleError", "Restorer", "run"]

_SOURCES = sorted(Path(__file__).parent.glob("*.java"))
# RocksDB waits for the disk whenever a case's stores close; in memory a case takes a tenth of the time.
_IN_MEMORY = Path("/dev/shm")


class OracleError(Exception):
    """The Java program ended before it had answered, or Kafka Streams cannot work in it."""


def run(main: Callable[..., None]) -> None:
    """Runs a command that plays on Kafka Streams; exits with a sentence, without a traceback, if it lacks something."""
    try:
        typer.run(main)
    except (OracleError, JavaError, LocalBrokerError) as error:
        sys.exit(str(error))


class KafkaStreams:
    """A JVM that plays cases on one version of Kafka Streams, from ``with`` to its end.

    Raises LocalBrokerError if there is no Java, or the jars cannot be fetched.
    """

    program = "Oracle"

    def __init__(self, version: str = KAFKA_VERSION, *arguments: str) -> None:
        self.version = version
        jars = kafka_streams_jars(version)
        self._work = Path(tempfile.mkdtemp(prefix="penstock-oracle-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
        try:
            class_path = compiled(_SOURCES, jars, self._work)
            self._jvm = subprocess.Popen(
                [find_java().executable, *JVM_FLAGS, "-Xmx1g", "-cp", class_path, self.program,
                 self._work / "state", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._work,
            )  # fmt: skip
        except BaseException:
            shutil.rmtree(self._work, ignore_errors=True)
            raise

    def play(self, cases: Sequence[Case]) -> Iterator[Case]:
        """Yields the answer to each case, in order. The JVM works ahead, so the answers must be read to the end.

        An answer may be that Kafka Streams refuses the case. Raises OracleError if it cannot work, or if the JVM ends.
        """
        assert self._jvm.stdout is not None
        feeder = threading.Thread(target=self._feed, args=(cases,), daemon=True)
        feeder.start()
        for case in cases:
            line = self._jvm.stdout.readline()
            if not line:
                raise OracleError(f"The JVM ended (exit {self._jvm.wait()}) instead of answering {case['name']}.")
            played: Case = orjson.loads(line)
            if "broken" in played:
                raise OracleError(f"Kafka Streams could not work when it played {case['name']}: {played['broken']}")
            yield played
        feeder.join()

    def _feed(self, cases: Sequence[Case]) -> None:
        assert self._jvm.stdin is not None
        try:
            for case in cases:
                self._jvm.stdin.write(orjson.dumps(case) + b"\n")
            self._jvm.stdin.flush()
        except (BrokenPipeError, ValueError):
            return  # the JVM has ended, or close() was called: the reader of its answers reports it

    def close(self) -> None:
        """End the JVM and remove what it wrote."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.kill()
        self._jvm.wait()
        self._jvm.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # a question is left whose answer nobody waits for
            self._jvm.stdin.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Restorer(KafkaStreams):
    """A JVM in which real applications, on the broker at ``bootstrap_servers``, take over from others."""

    program = "Restorer"

    def __init__(self, bootstrap_servers: str, version: str = KAFKA_VERSION) -> None:
        super().__init__(version, bootstrap_servers)

    def restore(self, cases: Sequence[Case]) -> Iterator[Case]:
        """Yields the stores of each case, in no order. Raises OracleError if the JVM ends before it has answered."""
        assert self._jvm.stdout is not None
        feeder = threading.Thread(target=self._feed, args=(cases,), daemon=True)
        feeder.start()
        for number in range(len(cases)):
            line = self._jvm.stdout.readline()
            if not line:
                raise OracleError(f"The JVM ended (exit {self._jvm.wait()}) after {number} of {len(cases)} cases.")
            yield orjson.loads(line)
        feeder.join()
