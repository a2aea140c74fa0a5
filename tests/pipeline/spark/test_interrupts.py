"""Ctrl-C ends processes that are started under the name of Spark, and the block then raises KeyboardInterrupt."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from penstock.pipeline.spark.interrupts import interrupts_end_spark

# In a process of its own: in that of the tests it would end the Spark that they share.
PROGRAM = """
import signal, subprocess, sys
from penstock.pipeline.spark.interrupts import interrupts_end_spark

def started(mark):
    script = "import sys, time; print(1, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script, mark], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process

java, other = started("org.apache.spark.deploy.SparkSubmit"), started("another")
try:
    with interrupts_end_spark():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise OSError("Answer from Java side is empty")
except KeyboardInterrupt:
    print("interrupted", java.poll() is not None, other.poll() is None)
other.kill()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


WHILE_FINALIZED = """
import signal
from penstock.pipeline.spark.interrupts import interrupts_end_spark

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

try:
    with interrupts_end_spark():
        Finalized()
    print("ended normally")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_error_after_ctrl_c_is_an_interruption_and_spark_has_ended() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["interrupted", "True", "True", "True"], "")


def test_ctrl_c_while_python_finalizes_an_object_is_an_interruption() -> None:
    ran = subprocess.run([sys.executable, "-c", WHILE_FINALIZED], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["interrupted", "True"]


def test_an_error_without_ctrl_c_is_raised_unchanged() -> None:
    with pytest.raises(OSError, match="no Java"), interrupts_end_spark():
        raise OSError("no Java")


def test_a_command_in_the_background_of_a_script_ignores_ctrl_c() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_end_spark():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, former)
