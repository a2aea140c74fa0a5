"""Looks for keys in several tasks, because other programs may write the topic of a store by an unknown partitioner.

A key that is found is an answer in any case. A key is absent only if all tasks that may have it report that. If one of
them does not answer, its error is raised.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from penstock.cluster.queries.key_serdes import KeyHome
from penstock.common.errors import NotUpToBoundError, StateStoreError, TaskNotReadyError
from penstock.common.ids import TaskId
from penstock.state.queries import QueryRow

_KEYS_AT_ONCE = 500  # about 2 ms of a task's work
_OF_ONE_TASK = (TaskNotReadyError, NotUpToBoundError, StateStoreError)
"""After these, another task may still have the key."""


async def row_of_key(
    home: KeyHome, ask: Callable[[TaskId], Coroutine[Any, Any, Sequence[QueryRow]]]
) -> QueryRow | None:
    """Returns the row that the first tasks have, else the row of any other task; these are all asked at once. None: the
    key is absent."""
    failure: Exception | None = None
    for tasks in (home.first, home.others):
        asked = [asyncio.create_task(ask(task)) for task in tasks]
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    rows = await answer
                except _OF_ONE_TASK as error:
                    failure = failure or error
                    continue
                if rows:
                    return rows[0]
        finally:
            await _cancel(asked)
    if failure is not None:
        raise failure
    return None


async def rows_of_keys(
    homes: Iterable[KeyHome], ask: Callable[[TaskId, tuple[bytes, ...]], Awaitable[Sequence[QueryRow]]]
) -> dict[bytes, QueryRow]:
    """The rows of those keys that are there, by the key's bytes. The tasks in which keys are looked for first are asked
    at once; then, for the keys that none of them has, all others at once."""
    homes = {home.data: home for home in homes}.values()
    found: dict[bytes, QueryRow] = {}
    failures: list[Exception] = []
    for tasks_of in (_first, _others):
        wanted: dict[TaskId, list[bytes]] = defaultdict(list)
        for home in homes:
            for task in tasks_of(home) if home.data not in found else ():
                wanted[task].append(home.data)
        asking = [ask(task, piece) for task, keys in wanted.items() for piece in _pieces(keys)]
        for rows in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(rows, _OF_ONE_TASK):
                failures.append(rows)
            elif isinstance(rows, BaseException):
                raise rows
            else:
                for row in rows:
                    found.setdefault(row.key, row)
    if failures and len(found) < len(homes):
        raise failures[0]
    return found


def _first(home: KeyHome) -> Collection[TaskId]:
    return home.first


def _others(home: KeyHome) -> Collection[TaskId]:
    return home.others


def _pieces(keys: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    ordered = sorted(keys)
    for begin in range(0, len(ordered), _KEYS_AT_ONCE):
        yield tuple(ordered[begin : begin + _KEYS_AT_ONCE])


async def _cancel(asked: Collection[asyncio.Task[Sequence[QueryRow]]]) -> None:
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
