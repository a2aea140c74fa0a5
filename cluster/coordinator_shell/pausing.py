"""Pauses and resumes an application, and ensures that each of its stream actors gets that setting.

The coordinator sends the setting once to every actor, and to each new one before it gets tasks. If it does not arrive,
the next status of the actor shows that: an actor that reports another setting gets it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from structlog.stdlib import BoundLogger

from penstock.actors.orders import Pause
from penstock.actors.status import ActorStatus
from penstock.cluster.environment import ActorSilentError, OrderReceiver
from penstock.common.errors import StreamsError
from penstock.common.measures import WINDOW_S

_LATE_S = 10.0
"""Seconds after the window: shares of time cover up to 5 s more than it, and reach the coordinator a moment later."""


class Pausing:
    """``paused`` is the setting now. ``keep`` saves it beyond this process. Everything runs in one event loop.
    ``clock_s`` returns the seconds of a clock that never goes back."""

    def __init__(
        self, keep: Callable[[bool], Awaitable[None]], log: BoundLogger, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.paused = False
        self._keep = keep
        self._log = log
        self._clock_s = clock_s
        self._resumed_s: float | None = None
        self._logged = False
        self._one_by_one = asyncio.Lock()

    def begin(self, paused: bool) -> None:
        """Take the setting from before a restart, or of a new application, unless ``become`` has set one since."""
        if not self._logged:
            self.paused = paused

    async def become(self, paused: bool, actors: Callable[[], Iterable[OrderReceiver]]) -> None:
        """Pause or resume the application; returns when that is saved, and every actor that answers has received it."""
        async with self._one_by_one:
            self._logged = True
            await self._keep(paused)
            if paused != self.paused:
                self.paused = paused
                self._resumed_s = None if paused else self._clock_s()
                self._log.info("application paused" if paused else "application resumed")
            # Actors that still start get it when they have started.
            await asyncio.gather(*(self.tell(actor) for actor in actors()))

    @property
    def has_just_resumed(self) -> bool:
        """True while the actors' shares of time still cover a part of the pause."""
        return self._resumed_s is not None and self._clock_s() - self._resumed_s < WINDOW_S + _LATE_S

    async def tell(self, actor: OrderReceiver) -> None:
        """Send the setting to one actor."""
        try:
            await actor.tell(Pause(self.paused))
        except StreamsError as error:
            # It may have ended, which its watcher notices; else it gets the setting again when it next reports.
            self._log.warning("pause or resume not sent to an actor, retrying", actor=actor.actor_id, error=str(error))

    async def started(self, actor: OrderReceiver) -> None:
        """Send the setting to a new actor, which gets no tasks before that. Raises StreamsError if it is gone."""
        while self.paused:
            try:
                await actor.tell(Pause(True))
                break
            except ActorSilentError as error:
                self._log.warning("pause not sent to a new actor, retrying", error=str(error))

    def contradicts(self, status: ActorStatus) -> bool:
        """Returns True if the actor reports another setting and must be sent this one."""
        return status.paused != self.paused and not status.stopping and status.error is None
