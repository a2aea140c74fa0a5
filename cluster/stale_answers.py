"""Where a stale answer will do, nobody is waited for long: an actor may stand still, and another has a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from penstock.actors.messages import QueryFailure, StoreAnswer
from penstock.common.errors import TaskNotReadyError

Answer = StoreAnswer | None
"""None: there is none, the actor is gone."""
Ask = Callable[[], Coroutine[Any, Any, Answer]]
PATIENCE_S = 0.5
"""So long is one actor waited for before the next is asked as well."""
_A_COPY_MAY_HELP = frozenset({QueryFailure.NOT_PRESENT, QueryFailure.NOT_ACTIVE, QueryFailure.BUSY})


async def first_answer(
    active: Coroutine[Any, Any, Answer], copies: Callable[[], Awaitable[Iterable[Ask]]]
) -> tuple[Answer, bool]:
    """The answer of the ``active`` task and False, if it comes soon; else whichever comes first, and True if it is that
    of a copy: they are asked one after the other. Where none has one, it is what the active task says, or raises."""
    of_active = asyncio.create_task(active)
    asked = [of_active]
    try:
        taken = await _first_final(asked, PATIENCE_S)
        for copy in () if taken else await copies():
            asked.append(asyncio.create_task(_of_copy(copy)))
            if taken := await _first_final(asked, PATIENCE_S):
                break
        taken = taken or await _first_final(asked, None) or of_active
        return taken.result(), taken is not of_active
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _of_copy(ask: Ask) -> Answer:
    try:
        answer = await ask()
    except TaskNotReadyError:
        return None
    return answer if answer is not None and answer.failure is None else None


async def _first_final(asked: Sequence[asyncio.Task[Answer]], patience_s: float | None) -> asyncio.Task[Answer] | None:
    """The first with an answer, or an error, that no copy betters; None when none has one. Where ``patience_s`` is
    given the one that was asked last is waited for, for so long; else all are."""
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
    return answer is not None and answer.failure not in _A_COPY_MAY_HELP
