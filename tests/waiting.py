"""Waiting for what another thread or process does: by looking, with a deadline, never by the time that it may take."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 120.0, look_each_s: float = 0.05) -> None:
    """Look until ``condition`` holds; fails naming ``what`` did not come about. ``look_each_s``: 0 where the condition
    does the waiting itself."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(look_each_s)
