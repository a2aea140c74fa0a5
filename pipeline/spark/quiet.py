"""Keeps PySpark from hiding an interruption, and its cause."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext


@contextmanager
def without_log_of_py4j() -> Iterator[None]:
    """Drops the log lines of py4j, which raises the same errors. Ctrl-C reaches the JVM, too: tracebacks of calls that
    have lost it would precede the message about the interruption."""
    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    own.setLevel(logging.CRITICAL)
    root.addFilter(_is_not_of_py4j)  # some lines go to the root logger itself
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)
        own.setLevel(level)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keeps Python's handling of Ctrl-C while Spark starts. PySpark's own handler calls the JVM, to cancel all jobs,
    while another call is under way: an error of py4j then hides the KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():  # PySpark installs none there
        yield
        return
    handler = signal.getsignal(signal.SIGINT)

    def cancel(context: SparkContext) -> None:
        if callable(handler):
            handler(signal.SIGINT, None)

    context: Any = SparkContext
    cancel_all_jobs = context.cancelAllJobs
    context.cancelAllJobs = cancel  # PySpark's handler is in force until Spark has started
    try:
        yield
    finally:  # Spark may also fail after it has installed its own
        signal.signal(signal.SIGINT, handler)
        context.cancelAllJobs = cancel_all_jobs
