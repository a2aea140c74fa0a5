"""Work in an event loop whose end nothing awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class BackgroundTasks:
    """Tasks of ``loop``, which run until they end or are cancelled. ``failed`` is called with the error of one that
    fails."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no reference to a task

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin ``work``."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel_others(self) -> None:
        """Cancel all tasks except the current one."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
