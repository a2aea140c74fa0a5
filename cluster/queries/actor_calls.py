"""Sends the queries of one reader to one actor.

Measured need: thousands of single look-ups a second through calls that cost Ray half a millisecond each. So at most one
call is under way per actor, and all queries that arrive before its end travel together in the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.common.errors import TaskNotReadyError

Caller = Callable[[list[StoreQuery]], Coroutine[Any, Any, list[StoreAnswer]]]
CALL_S = 10.0
_MOST_WAITING = 10_000  # look-ups that one reader lets wait for one actor


class ActorCalls:
    """The calls with queries to one actor: one is under way, and queries that arrive before its end wait for the next.

    Queries that wait for a call fail if it takes too long, but the call is not repeated: until it is answered, or the
    actor is lost, further queries are refused at once with TaskNotReadyError.
    """

    def __init__(self, actor: str, call: Caller) -> None:
        self._actor = actor
        self._call = call
        self._waiting: list[tuple[StoreQuery, asyncio.Future[StoreAnswer]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._under_way: asyncio.Task[list[StoreAnswer]] | None = None
        self._late = False

    async def ask(self, query: StoreQuery) -> StoreAnswer:
        """Returns the actor's answer. Raises what the call raised, or TaskNotReadyError when the actor is busy."""
        if self._late:
            raise self._busy(f"has not answered for {CALL_S:.0f} s")
        if len(self._waiting) >= _MOST_WAITING:
            raise self._busy(f"has {len(self._waiting)} queries waiting")
        future: asyncio.Future[StoreAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await future

    def _busy(self, why: str) -> TaskNotReadyError:
        return TaskNotReadyError(f"actor {self._actor} {why}: it is busy, ask again later")

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            call = self._under_way = asyncio.create_task(self._call([query for query, _ in batch]))
            answered, _ = await asyncio.wait({call}, timeout=CALL_S)
            if not answered:
                late = [future for _, future in batch + self._waiting]
                self._waiting, self._late = [], True
                for future in late:
                    _fail(future, self._busy(f"has not answered for {CALL_S:.0f} s"))
                await asyncio.wait({call})
                self._late = False
            error = call.exception()
            for index, (_, future) in enumerate(batch):
                if error is not None:
                    _fail(future, error)
                elif not future.done():
                    future.set_result(call.result()[index])
        self._sender = None


def _fail(future: asyncio.Future[StoreAnswer], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def caller(handle: Any) -> Caller:
    """Returns a function that calls the stream actor of ``handle``."""

    async def call(queries: list[StoreQuery]) -> list[StoreAnswer]:
        answers: list[StoreAnswer] = await asyncio.wrap_future(handle.query.remote(queries).future())
        return answers

    return call
