"""Gets an answer soon if it may be stale: standbys are asked as well when the active task gives none in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from penstock.actors.store_queries import QueryFailure, StoreAnswer
from penstock.common.errors import TaskNotReadyError

Answer = StoreAnswer | None
"""The answer of an actor; None if the actor is gone."""
Ask = Callable[[], Coroutine[Any, Any, Answer]]
PATIENCE_S = 0.5
"""Seconds to wait for one actor before the next is asked as well."""
_A_STANDBY_MAY_HELP = frozenset({QueryFailure.NOT_PRESENT, QueryFailure.NOT_ACTIVE, QueryFailure.BUSY})


async def first_answer(
    active: Coroutine[Any, Any, Answer], standbys: Callable[[], Awaitable[Iterable[Ask]]]
) -> tuple[Answer, bool]:
    """Returns the answer of the ``active`` task and False if it comes soon. Otherwise returns the first that comes, and
    True if it is a standby's; standbys are asked one after the other. If none has one, the active task's result
    counts."""
    of_active = asyncio.create_task(active)
    asked = [of_active]
    try:
        taken = await _first_final(asked, PATIENCE_S)
        for ask in () if taken else await standbys():
            asked.append(asyncio.create_task(_of_standby(ask)))
            if taken := await _first_final(asked, PATIENCE_S):
                break
        taken = taken or await _first_final(asked, None) or of_active
        return taken.result(), taken is not of_active
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _of_standby(ask: Ask) -> Answer:
    try:
        answer = await ask()
    except TaskNotReadyError:
        return None
    return answer if answer is not None and answer.failure is None else None


async def _first_final(asked: Sequence[asyncio.Task[Answer]], patience_s: float | None) -> asyncio.Task[Answer] | None:
    """Returns the first task with an answer, or an error, that no standby can improve; None if there is none. Waits up
    to ``patience_s`` for the task that was asked last; if that is None, waits for all."""
    waiting, newest = set(asked), asked[-1]
    while waiting and not (patience_s is not None and newest.done()):
        done, waiting = await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if final := [each for each in done if _is_final(each)]:
            return final[0]
        if not done:
            return None
    return None


def _is_final(asked: asyncio.Task[Answer]) -> bool:
    if (error := asked.exception()) is not None:
        return not isinstance(error, TaskNotReadyError)
    answer = asked.result()
    return answer is not None and answer.failure not in _A_STANDBY_MAY_HELP
