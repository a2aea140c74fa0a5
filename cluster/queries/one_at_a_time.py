"""Runs one slow piece of work at a time, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.cluster.record_side import ReadsBusyError

T = TypeVar("T")

_WAIT_S = 5.0
"""Seconds that a read waits for the one before it."""
_LONGEST_S = 15.0
"""Seconds after which a read counts as hung: longer than the time in which a client reports that no broker answers."""


class OneAtATime:
    """Runs one read, or one replay, at a time. One that hangs, in a client or in a serde, keeps its place until it
    ends; others are refused meanwhile: so no number of requests can fill the process with threads and clients."""

    def __init__(self, what: str = "a read of a topic", wait_s: float = _WAIT_S, longest_s: float = _LONGEST_S) -> None:
        self._what = what
        self._wait_s = wait_s
        self._longest_s = longest_s
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Returns the result of ``work``, which runs in a thread. Raises ReadsBusyError if another one does not end, or
        this one takes too long."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + self._wait_s
        while self._running is not None and not self._running.done():
            left_s = until_s - clock()
            if left_s <= 0:
                raise ReadsBusyError(f"{self._what} is under way already, and has been for {self._wait_s:g} s")
            await asyncio.wait({self._running}, timeout=left_s)
        running = asyncio.ensure_future(asyncio.to_thread(work))
        self._running = running
        running.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody may be there to take it
        done, _ = await asyncio.wait({running}, timeout=self._longest_s)
        if not done:
            raise ReadsBusyError(f"{self._what} has not ended within {self._longest_s:g} s; it continues")
        return running.result()
