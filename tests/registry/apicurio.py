"""A real schema registry: Apicurio's server, in memory, which speaks Confluent's API. Like a broker, it needs Java."""

from __future__ import annotations

import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.kafka.local_broker.jars import resolve
from penstock.kafka.local_broker.java import find_java
from tests.waiting import PATIENCE_S

VERSION = "2.6.13.Final"
_FLAGS = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dquarkus.http.host=127.0.0.1")
_LISTENS = re.compile(r"Listening on: (http://127\.0\.0\.1:\d+)")


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """Yields the URL of a server that runs within the ``with``; its programs are unpacked into ``folder``."""
    (archive,) = resolve((f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all",), f"apicurio-{VERSION}")
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4
            content.extraction_filter = tarfile.data_filter
        content.extractall(folder)
    runner, log = folder / f"apicurio-registry-app-{VERSION}-runner.jar", folder / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [find_java().executable, *_FLAGS, "-Dquarkus.http.port=0", "-jar", runner],
            cwd=folder, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield f"{_url(server, log)}/apis/ccompat/v7"
    finally:
        server.kill()
        server.wait()


def _url(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while (found := _LISTENS.search(log.read_text())) is None:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    return found[1]
