"""Ctrl-C stays Python's, whatever becomes of Spark."""

from __future__ import annotations

import signal

import pytest
from pyspark import SparkContext

from penstock.pipeline.spark.quiet import own_interrupts


def fails_to_start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise OSError("no Java")


def test_the_handler_of_ctrl_c_is_restored_if_spark_does_not_start() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="no Java"), own_interrupts():
        fails_to_start()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_spark_starts_makes_no_call_to_java() -> None:
    before = SparkContext.cancelAllJobs
    context = SparkContext.__new__(SparkContext)  # one that is not connected: a call would be another error
    with pytest.raises(KeyboardInterrupt), own_interrupts():
        context.cancelAllJobs()  # PySpark's handler begins with this call
    assert SparkContext.cancelAllJobs is before
