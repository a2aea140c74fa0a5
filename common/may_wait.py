"""Tells code that a thread calls now and then, such as a serde with a schema registry, if it may wait there.

A stream thread must not wait: it has tasks, queries and commits of others. Each other thread may.
"""

from __future__ import annotations

import threading

_LONGEST_S = 10.0


class _Thread(threading.local):
    longest_s = _LONGEST_S


_thread = _Thread()


def may_wait_s() -> float:
    """Returns the seconds that the calling thread may wait for an answer; 0 if it must not."""
    return _thread.longest_s


def never_wait() -> None:
    """Note that the calling thread must not wait from now on."""
    _thread.longest_s = 0.0
