"""The lines that Java prints while Spark starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkConf, SparkContext

from penstock.pipeline.spark import java_output
from penstock.pipeline.spark.java_output import quiet_start
from tests.waiting import eventually


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


def test_only_lines_behind_the_start_are_shown(java: Java, capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start(SparkConf(loadDefaults=False)):
        java.output.write(b'Setting Spark log level to "FATAL".\n')
    assert capfd.readouterr().err == ""
    java.output.write(b"printed by a function\n")
    assert shown(capfd) == "printed by a function\n"


def test_all_lines_of_a_start_that_fails_are_shown(java: Java, capfd: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        with quiet_start(SparkConf(loadDefaults=False)):
            java.output.write(b"no space left\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        start()
    assert shown(capfd) == "WARN Utils: your hostname\nno space left\n"


def shown(capfd: pytest.CaptureFixture[str]) -> str:
    """Returns what standard error gets, once it gets something."""
    read: list[str] = []

    def something() -> bool:
        read.append(capfd.readouterr().err)
        return bool(read[-1])

    eventually(something, "the line is passed on")
    return "".join(read)
