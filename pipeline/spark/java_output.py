"""Starts Spark's Java, whose first lines are shown only if Spark does not start."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

_SHOWN_WITHIN_S = 1.0


@contextmanager
def quiet_start(conf: SparkConf) -> Iterator[None]:
    """Starts a Java if this process has none, and keeps back what it writes to standard error until the block ends: its
    warnings about its own modules, and Spark's lines about its log. Later lines are passed on as they come, such as
    those that a user's function prints in a worker. After an error in the block, the kept lines are shown."""
    context: Any = SparkContext  # private names; without them each start prints ten lines
    if context._gateway is not None:  # Java outlives each Spark
        yield
        return
    reading, writing = os.pipe()
    relay = _Relay(os.fdopen(reading, "rb"))
    relay.start()
    launch: Any = launch_gateway  # without types in PySpark
    try:
        context._ensure_initialized(gateway=launch(conf, {"stderr": writing}), conf=conf)
        yield
    except Exception:
        relay.shows_the_start = True
        raise
    finally:
        os.write(writing, _Relay.END_OF_START)
        os.close(writing)
        relay.start_is_over.wait(_SHOWN_WITHIN_S)


class _Relay(threading.Thread):
    """Passes on what Java writes, behind the lines of its start."""

    END_OF_START = b"\0penstock: end of the start\n"

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(name="penstock-java-output", daemon=True)
        self._source = source
        self.shows_the_start = False
        self.start_is_over = threading.Event()

    def run(self) -> None:
        """Read until Java, and the workers that have inherited its output, have ended."""
        kept: list[bytes] = []
        for line in self._source:
            if self.start_is_over.is_set():
                _show(line)
            elif line.endswith(self.END_OF_START):
                if self.shows_the_start:
                    _show(b"".join(kept))
                self.start_is_over.set()
            else:
                kept.append(line)


def _show(text: bytes) -> None:
    sys.stderr.write(text.decode(errors="replace"))
    sys.stderr.flush()
