"""A page of a range: the rows of all tasks that have a part of it, merged by key as far as the page needs them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.state.queries import QueryRow

PIECE_ROWS = 1000
_PAGE_BYTES = 16 << 20


class TaskRange:
    """The rows of one task in a range, asked for piece by piece as they are needed."""

    def __init__(self, ask: Callable[[StoreQuery], Awaitable[StoreAnswer]], query: StoreQuery) -> None:
        self._ask = ask
        self._query = query
        self._rows: Iterator[QueryRow] = iter(())
        self._after: bytes | None = query.after
        self._more = True
        self.row_bytes = 0.0

    async def next(self) -> QueryRow | None:
        """Returns the next row by key; None after the last one."""
        row = next(self._rows, None)
        while row is None and self._more:
            query = replace(self._query, after=self._after)
            answer = await self._ask(query)
            self._more = answer.more or len(answer.rows) >= query.limit
            self._after = answer.reached if answer.more or not answer.rows else answer.rows[-1].key
            self.row_bytes = answer.size / max(1, len(answer.rows))
            self._rows = iter(answer.rows)
            row = next(self._rows, None)
        return row


async def first_rows(parts: Sequence[TaskRange], limit: int, descending: bool) -> tuple[list[QueryRow], bool]:
    """Returns the first rows of all parts together, ``limit`` or about _PAGE_BYTES, and True if there are more.

    All parts are ``descending``, or none is.

    All rows of one key are on the same page, even if that makes the page larger than ``limit``. The next page begins
    after the key of the last row.
    """
    heads = await asyncio.gather(*(part.next() for part in parts))
    place: Callable[[bytes], Any] = _Backwards if descending else bytes
    heap = [(place(head.key), index, head) for index, head in enumerate(heads) if head is not None]
    heapq.heapify(heap)
    rows: list[QueryRow] = []
    size = 0.0
    while heap and ((len(rows) < limit and size < _PAGE_BYTES) or (rows and heap[0][2].key == rows[-1].key)):
        _, index, row = heap[0]
        rows.append(row)
        size += parts[index].row_bytes
        following = await parts[index].next()
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (place(following.key), index, following))
    return rows, bool(heap)


class _Backwards:
    """A key that comes before those that are smaller."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __lt__(self, other: _Backwards) -> bool:
        return self._key > other._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and self._key == other._key

    __hash__ = None  # type: ignore[assignment]  # never a key of a dict
