"""A real Kafka Streams in a JVM, which runs parity cases as applications on a broker."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from penstock.kafka.local_broker.java import find_java
from tests.java import JVM_FLAGS, JavaError, compiled, kafka_streams_jars

_PROGRAM = Path(__file__).parent / "java" / "Application.java"
_ORACLE = Path(__file__).parents[1] / "parity" / "oracle"


class JavaApplication:
    """Runs one application of Kafka Streams after another, from ``with`` to its end. Raises LocalBrokerError if there
    is no Java, or its libraries cannot be fetched."""

    def __init__(self) -> None:
        self._work = Path(tempfile.mkdtemp(prefix="penstock-java-"))
        self._states = 0
        try:
            sources = [*sorted(_ORACLE.glob("*.java")), _PROGRAM]
            class_path = compiled(sources, kafka_streams_jars(), self._work / "classes")
            self._jvm = subprocess.Popen(
                [find_java().executable, *JVM_FLAGS, "-Xmx1g", "-cp", class_path, _PROGRAM.stem, self._work / "state"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self._work,
            )  # fmt: skip
        except BaseException:
            shutil.rmtree(self._work, ignore_errors=True)
            raise

    def start(self, topology: list[dict[str, Any]], config: Mapping[str, Any]) -> str:
        """Starts an application with an empty state directory; returns its description when it runs. Raises JavaError
        with its reason if it ends in ERROR."""
        self._states += 1
        entries = {"state.dir": str(self._work / f"state-{self._states}"), **config}
        answer = self._asked({"do": "start", "topology": topology, "config": entries})
        if answer.get("state") != "RUNNING":
            raise JavaError(f"{answer.get('state')}: {answer.get('error')}")
        description: str = answer["description"]
        return description

    def stop(self, leave: bool = True) -> None:
        """Closes the application. ``leave``: it leaves its consumer group, as Kafka Streams does not by default."""
        answer = self._asked({"do": "stop", "leave": leave})
        if "error" in answer:
            raise JavaError(str(answer["error"]))

    def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(orjson.dumps(question) + b"\n")
        self._jvm.stdin.flush()
        line = self._jvm.stdout.readline()
        if not line:
            raise JavaError(f"the JVM ended (exit {self._jvm.wait()}) instead of answering {question['do']}")
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jvm.kill()
        self._jvm.wait()
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._jvm.stdin.close()
        shutil.rmtree(self._work, ignore_errors=True)
