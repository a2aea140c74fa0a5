"""Kafka Streams' side: finds a JDK, fetches the libraries, compiles the programs in ``java/`` and starts them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import BenchmarkError, Side
from penstock.kafka.local_broker.jars import KAFKA_VERSION, resolve

NAME = f"Kafka Streams {KAFKA_VERSION}"
OLDEST_MAJOR = 17
COORDINATES = (
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
    "com.fasterxml.jackson.core:jackson-databind:2.21.2",
    "org.slf4j:slf4j-nop:1.7.36",
)
_PROGRAMS = Path(__file__).with_name("java")


@dataclass(frozen=True)
class Jdk:
    """A JDK on this machine. ``version`` is the one that it reports."""

    java: Path
    compiler: Path
    version: str


@dataclass(frozen=True)
class JavaBaseline:
    """A compiled ``Bench`` that can be run."""

    java: Path
    class_path: str
    records: int
    bootstrap_servers: str
    state: Path
    guarantee: str

    def side(self) -> Side:
        """Kafka Streams with one stream thread, every setting that bears on speed at its default."""
        return Side(NAME, self._command)

    def _command(self, workload: str, application_id: str, output: str) -> Sequence[str]:
        arguments = (workload, str(self.records), self.bootstrap_servers, application_id, output, str(self.state))
        return [str(self.java), "-cp", self.class_path, "Bench", *arguments, self.guarantee]


def build(jdk: Jdk, work: Path, records: int, bootstrap_servers: str, guarantee: str) -> JavaBaseline:
    """Compile the Java side into ``work``."""
    class_path = compile_program(jdk, work, "Bench")
    return JavaBaseline(jdk.java, class_path, records, bootstrap_servers, work / "java-state", guarantee)


def compile_program(jdk: Jdk, work: Path, name: str) -> str:
    """Compile ``java/<name>.java`` into ``work``; the class path to run it. Libraries are fetched the first time."""
    jars = os.pathsep.join(str(jar) for jar in resolve(COORDINATES, f"kafka-streams-{KAFKA_VERSION}"))
    source, classes = _PROGRAMS / f"{name}.java", work / "classes"
    classes.mkdir(parents=True)
    done = subprocess.run(
        [jdk.compiler, "-cp", jars, "-d", classes, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"{source.name} does not compile:\n{done.stderr}")
    return f"{classes}{os.pathsep}{jars}"


def find_jdk() -> Jdk:
    """The first JDK of 17 or newer: JAVA_HOME, then PATH. Raises BenchmarkError with the places that were searched."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin"] if home else []
    if on_path := shutil.which("javac"):
        places.append(Path(on_path).resolve().parent)
    looked_at = []
    for place in places:
        java, compiler = place / "java", place / "javac"
        if not (java.exists() and compiler.exists()):
            looked_at.append(f"{place} holds no javac")
            continue
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
        version = re.search(r'version "([^"]+)"', output)
        if version and int(version.group(1).split(".")[0]) >= OLDEST_MAJOR:
            return Jdk(java, compiler, version.group(1))
        looked_at.append(f"{place} is older: {output.splitlines()[0]}")
    raise BenchmarkError(
        f"Kafka Streams needs a JDK (with javac) of version {OLDEST_MAJOR} or newer; a JRE is not enough. "
        f"Looked at: {'; '.join(looked_at) or 'JAVA_HOME (not set), PATH (no javac)'}. "
        "Install one or set JAVA_HOME."
    )
