"""Ends the process of a stream actor that is no longer part of its application."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from ray.exceptions import ActorDiedError, RayError
from structlog.stdlib import BoundLogger

from penstock.actors.commits.commit_calls import GONE_S
from penstock.common.within import within

_ANSWER_S = 10.0


class Belonging:
    """Watches one actor. Ray, which would end its process, may not be able to reach it, and a process that survives
    keeps the directories of its stores locked. ``end`` ends the process at once: it must write nothing more."""

    def __init__(self, actor_id: str, log: BoundLogger, end: Callable[[], None] = lambda: os._exit(1)) -> None:
        self._actor_id = actor_id
        self._log = log
        self._end = end
        self._dead_since_s: float | None = None

    async def ask(self, coordinator: Any) -> None:
        """Ask the coordinator once, and end the process if the actor no longer belongs to the application. Continue if
        the coordinator does not answer, or if Ray reports it dead for less than GONE_S."""
        now_s = asyncio.get_running_loop().time()
        try:
            asked = coordinator.has_actor.options(max_task_retries=0).remote(self._actor_id)
            belongs = await within(_ANSWER_S, asyncio.wrap_future(asked.future()))
        except ActorDiedError:
            self._dead_since_s = now_s if self._dead_since_s is None else self._dead_since_s
            if now_s - self._dead_since_s >= GONE_S:
                self.leave("its coordinator has ended")
        except (RayError, TimeoutError):
            self._dead_since_s = None
        else:
            self._dead_since_s = None
            if not belongs:
                self.leave("its coordinator has replaced it, or the application has ended")

    def leave(self, why: str) -> None:
        """End the process."""
        self._log.warning("actor no longer belongs to the application, ending its process", why=why)
        self._end()
