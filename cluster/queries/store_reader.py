"""The read side for code without an event loop: one thread with a loop, for all views of an application's stores."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar

from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.read_side import Query, Reading, ReadSide, RowsQuery, StoreEntries, StoreEntry
from penstock.common.errors import ApplicationStateError
from penstock.common.position import PositionBound

T = TypeVar("T")
_PAGE = 1000


class StoreReader:
    """Asks the stores of one application. Any thread may call it, until :meth:`close`."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self.queries = StateQueries(application_id)
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-stores", daemon=True)
        self._thread.start()

    def run(self, store: str, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to a question that is asked in the loop."""
        with self._closing:
            if self._closed:
                raise self._end(store)
            answer = asyncio.run_coroutine_threadsafe(question(), self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise self._end(store) from None

    def close(self) -> None:
        """End the thread; a call that waits for its answer raises ApplicationStateError. Idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _end(self, store: str) -> ApplicationStateError:
        return ApplicationStateError(
            f"application {self._application_id!r} is closed, and with it this view of its store {store!r}"
        )


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class StoreQuestions:
    """Questions to one store: each answer at least as new as ``bound``, for which the store is given ``wait_s``.
    ``stale`` and ``partitions``: see :class:`~penstock.cluster.read_side.Reading`."""

    def __init__(
        self,
        reader: StoreReader,
        name: str,
        bound: PositionBound | None,
        wait_s: float,
        stale: bool = False,
        partitions: frozenset[int] | None = None,
    ) -> None:
        self._partitions = partitions
        self.name = name
        self._reader = reader
        self._bound = bound
        self._wait_s = wait_s
        self._stale = stale

    def run(self, question: Callable[[ReadSide, Reading], Coroutine[Any, Any, T]], reading: Reading | None = None) -> T:
        """The answer to ``question``; ``reading``, where it is given, has its position then."""
        asked = reading or self.reading()
        return self._reader.run(self.name, lambda: question(self._reader.queries, asked))

    def reading(self) -> Reading:
        """Returns the conditions on the answer to one of its questions."""
        return Reading(bound=self._bound, wait_s=self._wait_s, stale=self._stale, partitions=self._partitions)

    def find_row(self, query: Query, reading: Reading | None = None) -> StoreEntry | None:
        """The row that ``query`` asks for."""
        return self.run(lambda side, reading: side.find_row(self.name, query, reading), reading)

    def rows(self, query: RowsQuery, reading: Reading | None = None) -> Iterator[StoreEntry]:
        """The rows that ``query`` asks for, fetched page by page, not at one moment."""
        cursor: str | None = None
        while True:
            page = self.run(partial(_page, self.name, query, cursor), reading)
            yield from page.entries
            if page.cursor is None:
                return
            cursor = page.cursor


async def _page(store: str, query: RowsQuery, cursor: str | None, side: ReadSide, reading: Reading) -> StoreEntries:
    return await side.page(store, query, _PAGE, cursor, reading)
