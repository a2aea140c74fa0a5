"""Ctrl-C stays Python's, whatever becomes of Spark."""

from __future__ import annotations

import signal

import pytest

from penstock.pipeline.spark.quiet import own_interrupts


def fails_to_start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise OSError("no Java")


def test_the_handler_of_ctrl_c_is_restored_if_spark_does_not_start() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="no Java"), own_interrupts():
        fails_to_start()
    assert signal.getsignal(signal.SIGINT) is before
