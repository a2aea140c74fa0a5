"""Moves tasks and restarts actors for users, and keeps what a restarted coordinator must know of that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any

from structlog.stdlib import BoundLogger

from penstock.cluster.coordinator_shell import kept_operations
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.keeping import until_kept
from penstock.cluster.events import MoveTaskRequested, RestartActorRequested
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.ids import TaskId

_CALLS_KEPT = 20


class UserOperations:
    """One per coordinator; everything runs in its event loop. ``actor_id``: under which Ray keeps the values."""

    def __init__(
        self,
        actor_id: Callable[[], str],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        log: BoundLogger,
    ) -> None:
        self.wishes = NO_WISHES
        """The placements that users want."""
        self._actor_id = actor_id
        self._spawn = spawn
        self._log = log
        self._calls: dict[str, str] = {}
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Continue with the values of a coordinator that was here before."""
        self.wishes = await asyncio.to_thread(kept_operations.load_wishes, self._actor_id())
        self._calls = await asyncio.to_thread(kept_operations.load_calls, self._actor_id())

    def wished(self, wishes: Wishes) -> None:
        """Keep the wishes, which have changed."""
        self.wishes = wishes
        self._spawn(self._save_wishes())

    async def _save_wishes(self) -> None:
        async with self._saving:  # one after the other, and the last is the latest
            await until_kept(lambda: kept_operations.save_wishes(self._actor_id(), self.wishes), self._log)

    async def move(self, dispatcher: Dispatcher, task: TaskId, to: str) -> str | None:
        """Have the task move; returns the reason if that is refused. A repeated call finds its wish, and is accepted
        again."""
        refused = dispatcher.machine.user_requests.refusal_of_move(task, to)
        if refused is None:
            self._log.info("a task is to move", task=str(task), to=to)
            dispatcher.feed(MoveTaskRequested(task, to))
            await self._save_wishes()  # a wish that a user knows to be accepted must be there after a restart, too
        return refused

    async def restart(self, dispatcher: Dispatcher, name: str, call: str) -> str | None:
        """Have the actor end and another start; returns the reason if that is refused. ``call`` is the id of the call,
        which may come again, also to a restarted coordinator."""
        refused = dispatcher.machine.user_requests.refusal_of_restart(name)
        if call not in self._calls:
            if refused is not None:
                return refused
            self._calls = dict(islice({call: name, **self._calls}.items(), _CALLS_KEPT))
            async with self._saving:
                await until_kept(lambda: kept_operations.save_calls(self._actor_id(), self._calls), self._log)
            # It may have taken long, and a repeated call has not waited for it.
            refused = dispatcher.machine.user_requests.refusal_of_restart(name)
        if refused is None:
            self._log.info("an actor is to restart", restarted=name)
            dispatcher.feed(RestartActorRequested(name))
        return None
