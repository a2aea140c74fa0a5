"""Ctrl-C in a command that runs Spark: no process of Spark outlives the command, and no error hides Ctrl-C.

If a call of py4j is interrupted, its answer remains in the connection. The next call waits until the interrupted work
of Spark is done, and takes that answer for its own. It may then raise an error in place of the KeyboardInterrupt. So
Ctrl-C ends Spark's Java before anything else: then all calls of py4j return at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

_OF_SPARK = ("/bin/spark-submit", "org.apache.spark.")
"""The command lines of Spark's Java, and of the scripts that start it, contain one of these."""
_ENDS_WITHIN_S = 10.0


@contextmanager
def interrupts_end_spark() -> Iterator[None]:
    """Let Ctrl-C in the block end the Spark that this process has started, with its workers.

    After Ctrl-C it raises KeyboardInterrupt, in place of any other exception, and also if there was none: Python drops
    the KeyboardInterrupt if it is raised in ``__del__``. Does nothing outside of the main thread, or if this process
    has no default handling of Ctrl-C: in the background of a script, processes ignore it.
    """
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or former is not signal.default_int_handler:
        yield
        return
    interrupt = _Interrupt()
    signal.signal(signal.SIGINT, interrupt.take)
    try:
        yield
    except Exception as error:
        if not interrupt.came:
            raise
        raise KeyboardInterrupt from error
    else:
        if interrupt.came:
            raise KeyboardInterrupt
    finally:
        if interrupt.came:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            interrupt.end_spark()  # Java may have been about to start
        signal.signal(signal.SIGINT, former)


class _Interrupt:
    def __init__(self) -> None:
        self.came = False
        self._processes: set[psutil.Process] = set()

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.came = True
        _silence_lost_connections()
        self.end_spark()
        signal.default_int_handler(number, frame)

    def end_spark(self) -> None:
        """End Java by SIGTERM: it ends its executors and workers. Kills the processes that still run after 10 s."""
        for java in _javas():
            with suppress(psutil.NoSuchProcess):
                self._processes |= {java, *java.children(recursive=True)}
                java.terminate()
        _, alive = psutil.wait_procs(self._processes, _ENDS_WITHIN_S)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, _ENDS_WITHIN_S)


def _silence_lost_connections() -> None:
    """Keep PySpark's accumulator server from printing a traceback when the Java that it serves ends."""
    if (accumulators := sys.modules.get("pyspark.accumulators")) is not None:
        accumulators.AccumulatorServer.handle_error = lambda *_: None


def _javas() -> list[psutil.Process]:
    """Returns Spark's Java processes that this process has started, and the scripts that are about to start one."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if any(mark in part for part in child.cmdline() for mark in _OF_SPARK):
                found.append(child)
    return found
