"""A page of a range: the rows of all tasks that have a part of it, merged by key as far as the page needs them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from penstock.actors.messages import StoreAnswer, StoreQuery
from penstock.state.queries import QueryRow

PIECE_ROWS = 1000
_PAGE_BYTES = 16 << 20


class TaskRange:
    """The rows of one task in a range, asked for piece by piece as they are needed."""

    def __init__(self, ask: Callable[[StoreQuery], Awaitable[StoreAnswer]], query: StoreQuery) -> None:
        self._ask = ask
        self._query = query
        self._rows: Iterator[QueryRow] = iter(())
        self._last: bytes | None = query.after
        self._more = True
        self.row_bytes = 0.0

    async def next(self) -> QueryRow | None:
        """The next row by key; None behind the last one."""
        row = next(self._rows, None)
        while row is None and self._more:
            query = replace(self._query, after=self._last)
            answer = await self._ask(query)
            self._more = answer.more or len(answer.rows) >= query.limit
            self.row_bytes = answer.size / max(1, len(answer.rows))
            self._rows = iter(answer.rows)
            row = next(self._rows, None)
        if row is not None:
            self._last = row.key
        return row


async def first_rows(parts: Sequence[TaskRange], limit: int) -> tuple[list[QueryRow], bool]:
    """The first rows of all parts together, ``limit`` of them and about _PAGE_BYTES; whether there are more.

    Rows of one key stand on one page, be they too many by that: the next page begins behind the key of the last row.
    """
    heads = await asyncio.gather(*(part.next() for part in parts))
    heap = [(head.key, index, head) for index, head in enumerate(heads) if head is not None]
    heapq.heapify(heap)
    rows: list[QueryRow] = []
    size = 0.0
    while heap and ((len(rows) < limit and size < _PAGE_BYTES) or (rows and heap[0][0] == rows[-1].key)):
        _, index, row = heap[0]
        rows.append(row)
        size += parts[index].row_bytes
        following = await parts[index].next()
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following.key, index, following))
    return rows, bool(heap)
