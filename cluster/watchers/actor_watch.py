"""Asks each stream actor for its status, again and again, and finds those that are silent or lost.

A question to one actor never delays those to others: each has its own question under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.actors.status import ActorStatus
from penstock.cluster.environment import ActorHandle, NodeAnswer
from penstock.cluster.watchers.leases import Leases
from penstock.cluster.watchers.silence import Silence
from penstock.common.errors import StreamsError

ROUND_S = 0.5
"""A round waits no longer for answers; a question that is still under way is not asked again."""
PATIENCE_S = 0.5
"""Time without a status after which an actor is asked for a heartbeat."""
SILENT_AFTER_RESTART_S = 4.0
"""Time without any answer after which a coordinator that begins again ends an actor: work resumes within 5 s."""


class ActorWatch:
    """Asks all actors of an application.

    ``node`` asks the node of the actor of this name if it is there; ``node_of`` returns its id. ``heard`` takes each
    status; ``silent`` is called when an actor becomes silent, or answers again; ``lost`` when it must be replaced.
    ``leases`` gives the words that go with the questions. ``spawn`` runs a question until the dispatcher closes.
    """

    def __init__(
        self,
        silence: Silence,
        node: Callable[[str], Coroutine[Any, Any, NodeAnswer]],
        node_of: Callable[[str], str],
        heard: Callable[[ActorHandle, ActorStatus], None],
        silent: Callable[[str, bool], None],
        lost: Callable[[str, str], None],
        leases: Leases,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None] | None],
    ) -> None:
        self._silence = silence
        self._node = node
        self._node_of = node_of
        self._heard = heard
        self._silent = silent
        self._lost = lost
        self._leases = leases
        self._spawn = spawn
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._reported_silent: set[str] = set()
        self._names: tuple[str, ...] = ()  # those that are up and not lost

    async def look(self, up: Sequence[ActorHandle]) -> None:
        """Ask each of these actors that has no question under way; returns after ROUND_S at the latest."""
        self._names = tuple(handle.actor_id for handle in up)
        self._silence.forget_all_but(self._names)
        for handle in up:
            if handle.actor_id not in self._asking and (task := self._spawn(self._ask(handle))) is not None:
                self._asking[handle.actor_id] = task
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=ROUND_S)
        self._asking = {name: task for name, task in self._asking.items() if not task.done()}
        silent = {name for name in self._names if self._silence.is_silent(name)}
        for name in sorted(silent ^ self._reported_silent):
            if name in self._names:
                self._silent(name, name in silent)
        self._reported_silent = silent

    async def _ask(self, handle: ActorHandle) -> None:
        name = handle.actor_id
        self._silence.look_at(name)
        asked = asyncio.ensure_future(status_of(handle, self._leases))
        try:
            while name in self._names and not (await asyncio.wait({asked}, timeout=PATIENCE_S))[0]:
                await self._look_for_life(handle, asked)
            if name not in self._names:
                return
            if (status := asked.result()) is None:
                await self._look_for_life(handle)
            else:
                self._silence.status_received(name)
                self._heard(handle, status)
        finally:
            asked.cancel()

    async def _look_for_life(self, handle: ActorHandle, status: asyncio.Future[Any] | None = None) -> None:
        """Ask for a heartbeat, and while none comes, ask the node; until there is one, or a ``status``."""
        name = handle.actor_id
        beating = asyncio.ensure_future(_heartbeat_of(handle, self._leases))
        try:
            while status is None or not status.done():
                ended = await asyncio.wait({beating, *([status] if status else [])}, timeout=PATIENCE_S)
                beats = beating in ended[0] and beating.result()
                node_id = self._node_of(name)
                node = NodeAnswer.ANSWERS if beats else await self._node(node_id)
                elsewhere = [other for other in self._names if self._node_of(other) != node_id]
                if name in self._names and (reason := self._silence.continues(name, beats, node, elsewhere)):
                    self._names = tuple(other for other in self._names if other != name)
                    self._lost(name, reason)
                if beating.done() or name not in self._names:
                    return
        finally:
            beating.cancel()


async def status_of(handle: ActorHandle, leases: Leases) -> ActorStatus | None:
    """Returns the actor's own view; None if it does not answer now."""
    question_id = leases.question_id(handle.actor_id)
    try:
        status = await handle.status(question_id)
    except StreamsError:
        return None  # its watcher feeds the machine
    if status is not None:
        leases.answered(handle.actor_id, question_id)
    return status


async def status_after_restart(handle: ActorHandle, leases: Leases) -> ActorStatus | None:
    """Returns the actor's own view to a coordinator that begins again; all other actors wait for it with their commits.
    Returns None after SILENT_AFTER_RESTART_S if its process gives no heartbeat either. One that does is busy, as with a
    request to a broker, and answers soon."""
    asked = asyncio.ensure_future(status_of(handle, leases))
    beating = asyncio.ensure_future(_heartbeat_of(handle, leases))
    try:
        answered, _ = await asyncio.wait({asked}, timeout=SILENT_AFTER_RESTART_S)
        lives = beating.done() and beating.result()
        return await asked if answered or lives else None
    finally:
        asked.cancel()
        beating.cancel()


async def _heartbeat_of(handle: ActorHandle, leases: Leases) -> bool:
    question_id = leases.question_id(handle.actor_id)
    if beats := await handle.heartbeat(question_id):
        leases.answered(handle.actor_id, question_id)
    return beats
