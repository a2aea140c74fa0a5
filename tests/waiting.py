"""Waiting for another thread or process: by looking, with a deadline, never by the time that it may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from penstock.common.errors import StreamsError, TaskNotReadyError

T = TypeVar("T")

PATIENCE_S = 300.0
"""Deadline of a wait that nothing bounds but the machine: a Ray that starts beside other work, for example."""
_TICK_S, _LONGEST_TICK_S = 0.05, 0.25


def eventually(
    condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S, look_each_s: float = 0.05
) -> None:
    """Look until ``condition`` holds; at the deadline, fail with ``what``. ``look_each_s``: 0 if the condition does the
    waiting itself."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(look_each_s)


def once_ready(ask: Callable[[], T], not_ready: type[StreamsError] = TaskNotReadyError) -> T:
    """Returns the answer to a question; asks again after ``not_ready``: a task moves, or a leader is not known yet."""
    found: list[T] = []

    def answered() -> bool:
        with suppress(not_ready):
            found.append(ask())
        return bool(found)

    eventually(answered, f"an answer without {not_ready.__name__}")
    return found[0]


@contextmanager
def own_time() -> Iterator[Callable[[], float]]:
    """Yields a clock of the seconds in which this process has run, for a limit that is promised to users. If a busy
    machine stops the process for seconds, the clock counts a quarter of a second for it."""
    seconds, ended = [0.0], threading.Event()

    def tick() -> None:
        last = time.monotonic()
        while not ended.wait(_TICK_S):
            now = time.monotonic()
            seconds[0] += min(now - last, _LONGEST_TICK_S)
            last = now

    ticking = threading.Thread(target=tick, name="own-time")
    ticking.start()
    try:
        yield lambda: seconds[0]
    finally:
        ended.set()
        ticking.join()
