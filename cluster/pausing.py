"""Whether an application is paused, and that each of its stream actors knows it.

The coordinator says it once to every actor, and to each new one before it gets tasks. What goes wrong on the way is
mended where actors are asked what they do anyway: one that says otherwise than it should is told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from structlog.stdlib import BoundLogger

from penstock.actors.messages import ActorStatus
from penstock.actors.orders import Pause
from penstock.cluster.environment import ActorSilentError, ToldActor
from penstock.common.errors import StreamsError


class Pausing:
    """``paused`` is what holds now. ``keep`` keeps it beyond this process. Everything runs in one event loop."""

    def __init__(self, keep: Callable[[bool], Awaitable[None]], log: BoundLogger) -> None:
        self.paused = False
        self._keep = keep
        self._log = log
        self._said = False
        self._one_by_one = asyncio.Lock()

    def begin(self, paused: bool) -> None:
        """What held before, or what the application begins with; what was said since then counts more."""
        if not self._said:
            self.paused = paused

    async def become(self, paused: bool, actors: Callable[[], Iterable[ToldActor]]) -> None:
        """From now on it is paused, or not; returns when it is kept, and every actor that answers has been told."""
        async with self._one_by_one:
            self._said = True
            await self._keep(paused)
            if paused != self.paused:
                self.paused = paused
                self._log.info("application paused" if paused else "application resumed")
            # Those that start are told when they have.
            await asyncio.gather(*(self.tell(actor) for actor in actors()))

    async def tell(self, actor: ToldActor) -> None:
        """Say it to one."""
        try:
            await actor.tell(Pause(self.paused))
        except StreamsError as error:
            # It may have ended, which its watcher notices; else it is told again when it says what it does.
            self._log.warning("actor not told to pause or resume", actor=actor.actor_id, error=str(error))

    async def started(self, actor: ToldActor) -> None:
        """It has started, and gets no tasks before this returns. Raises StreamsError when it is gone."""
        while self.paused:
            try:
                await actor.tell(Pause(True))
                break
            except ActorSilentError as error:
                self._log.warning("new actor not told to pause, trying again", error=str(error))

    def contradicts(self, status: ActorStatus) -> bool:
        """Whether an actor that says so must be told."""
        return status.paused != self.paused and not status.stopping and status.error is None
