"""The lines that Java prints while Spark starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from pyspark import SparkConf, SparkContext

from penstock.pipeline.spark import java_output
from penstock.pipeline.spark.java_output import quiet_start
from tests.waiting import PATIENCE_S


class Java:
    """Stands in for the Java that ``launch_gateway`` starts: has its own end of the pipe."""

    def launch(self, conf: SparkConf, popen: dict[str, int]) -> Java:
        self.output = os.fdopen(os.dup(popen["stderr"]), "wb", buffering=0)
        self.output.write(b"WARN Utils: your hostname\n")
        return self


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[Java]:
    """A process that has no Java yet."""
    made = Java()
    monkeypatch.setattr(java_output, "launch_gateway", made.launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **given: None)
    yield made
    made.output.close()


class StandardError:
    """Holds what is written, for other threads to wait for. (pytest's ``capfd`` loses what another thread writes while
    it is read.)"""

    def __init__(self) -> None:
        self._written: SimpleQueue[str] = SimpleQueue()

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch) -> StandardError:
        """Takes the place of this process's in a test. (Between a fixture and its test, pytest sets its own again.)"""
        made = cls()
        monkeypatch.setattr(sys, "stderr", made)
        return made

    def write(self, text: str) -> None:
        self._written.put(text)

    def flush(self) -> None:
        """There is nothing to flush."""

    def next(self) -> str:
        """Returns what is written next; waits for it."""
        return self._written.get(timeout=PATIENCE_S)


def test_only_lines_behind_the_start_are_shown(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_error = StandardError.of(monkeypatch)
    with quiet_start(SparkConf(loadDefaults=False)):
        java.output.write(b'Setting Spark log level to "FATAL".\n')
    java.output.write(b"printed by a function\n")
    assert standard_error.next() == "printed by a function\n"


def test_all_lines_of_a_start_that_fails_are_shown(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_error = StandardError.of(monkeypatch)

    def start() -> None:
        with quiet_start(SparkConf(loadDefaults=False)):
            java.output.write(b"no space left\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        start()
    assert standard_error.next() == "WARN Utils: your hostname\nno space left\n"
