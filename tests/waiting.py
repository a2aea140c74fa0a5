"""Waiting for what another thread or process does: by looking, with a deadline, never by the time that it may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from penstock.common.errors import TaskNotReadyError

T = TypeVar("T")


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 120.0, look_each_s: float = 0.05) -> None:
    """Look until ``condition`` holds; fails naming ``what`` did not come about. ``look_each_s``: 0 where the condition
    does the waiting itself."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(look_each_s)


def once_ready(ask: Callable[[], T]) -> T:
    """Returns the answer to a look-up; asks again while a task moves, as to an actor that has come up later."""
    found: list[T] = []

    def answered() -> bool:
        with suppress(TaskNotReadyError):
            found.append(ask())
        return bool(found)

    eventually(answered, "tasks stay where they are")
    return found[0]
