"""Decides if code that many threads run, such as a serde with a schema registry, may wait in the current thread.

A stream thread must not wait, because it has other tasks, queries and commits. The thread of an event loop must not
wait either. Every other thread may.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from penstock.common.errors import RetriableError

T = TypeVar("T")
_LONGEST_S = 10.0
_STREAM_THREAD_WRITES_S = 1.0
"""Seconds that a record whose schema was not known when the task began may hold up even a stream thread."""
_LOOP_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.2


class _Thread(threading.local):
    to_read_s = _LONGEST_S
    to_write_s = _LONGEST_S


_thread = _Thread()


def may_wait_s() -> float:
    """Returns the seconds that the calling thread may wait for an answer; 0 if it must not."""
    return _thread.to_read_s


def may_wait_to_write_s() -> float:
    """Returns the seconds that the calling thread may wait for an answer without which it cannot write."""
    return _thread.to_write_s


def never_wait() -> None:
    """Note that the calling thread is a stream thread, which must not wait from now on."""
    _thread.to_read_s, _thread.to_write_s = 0.0, _STREAM_THREAD_WRITES_S


@contextmanager
def _without_waiting() -> Iterator[None]:
    before = _thread.to_read_s, _thread.to_write_s
    _thread.to_read_s = _thread.to_write_s = 0.0
    try:
        yield
    finally:
        _thread.to_read_s, _thread.to_write_s = before


async def in_event_loop(call: Callable[[], T]) -> T:
    """Returns the result of ``call``, which a serde may refuse at first because its schema registry has not answered.
    The event loop continues meanwhile. Raises RetriableError if there is no answer within two seconds."""
    until, pause_s = monotonic() + _LOOP_S, _FIRST_PAUSE_S
    while True:
        try:
            with _without_waiting():
                return call()
        except RetriableError:
            if monotonic() >= until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
