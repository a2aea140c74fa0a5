"""Errors of Spark's workers, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException

from penstock.common.errors import StreamsError

# The last line of a Python traceback.
_OF_PYTHON = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w*Error: .+)$", re.MULTILINE)
_OF_JAVA = re.compile(r"^\s*Caused by: [\w.$]*?(\w+(?:Exception|Error): .+)$", re.MULTILINE)
_NO_ANSWER = ("An error occurred while calling", "Answer from Java side is empty", "Connection re")
"""The only lines of reports without a cause, which Java would have given: there is no Java any more."""
_KILLED = "Python worker exited unexpectedly"


@contextmanager
def causes_named(what: str, then: str = "") -> Iterator[None]:
    """Turn Spark's report of an exception in a worker into one sentence that names what was raised there. ``then``: the
    sentence that follows it."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:  # if a worker, or all of Java, is lost
        raise StreamsError(f"{what}: {_cause(str(error))}{then and f'. {then}'}") from error


def _cause(report: str) -> str:
    if found := _OF_PYTHON.findall(report):
        return str(found[-1])
    if _KILLED in report:
        return "a Python worker of Spark was killed, as by the system when memory is short, or has crashed"
    if found := _OF_JAVA.findall(report):
        return str(found[-1])
    first, _, more = report.partition("\n")
    if not more and any(text in first for text in _NO_ANSWER):
        return "Spark has ended: its Java was killed, as by the system when memory is short, or has crashed"
    return first
