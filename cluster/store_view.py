"""A state store as a plain object of the driver: the read side for code without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar

from penstock.cluster.queries import StateQueries
from penstock.cluster.read_side import ends_before_it_begins
from penstock.common.errors import ApplicationStateError, SerializationError
from penstock.common.log import logger

T = TypeVar("T")
_PAGE = 1000


class ReadOnlyKeyValueStore:
    """All tasks' parts of one store, read over actor calls. Mirrors ``ReadOnlyKeyValueStore``.

    Every call may raise UnknownStateStoreError, TaskNotReadyError (a task restores or moves: try again) or
    ApplicationStateError (the application does not run, or was closed). What is not committed yet is seen.
    """

    def __init__(self, application_id: str, name: str) -> None:
        self.name = name
        self._application_id = application_id
        self._queries = StateQueries(application_id)
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"penstock-store-{name}", daemon=True)
        self._thread.start()

    def get(self, key: Any) -> Any | None:
        """The value of ``key``, None when absent."""
        entry = self._run(lambda: self._queries.get(self.name, key))
        return entry.value if entry is not None else None

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those ``keys`` that are there, by one call to each actor. They are read one after the other: no
        snapshot."""
        asked = list(keys)
        entries = self._run(lambda: self._queries.get_many(self.name, asked))
        return {entry.key: entry.value for entry in entries if entry is not None}

    def range(self, from_key: Any | None, to_key: Any | None) -> Iterator[tuple[Any, Any]]:
        """Entries by serialised key, both ends included, None open. Fetched page by page: no snapshot.

        The order is that of the keys' bytes, in which a negative integer comes behind any that is not. Where
        ``from_key`` comes behind ``to_key`` in it there are no entries, and a warning says so, as in Kafka Streams.
        """
        if from_key is not None and to_key is not None:
            self._warn_of_order(from_key, to_key)
        cursor: str | None = None
        while True:
            page = self._run(partial(self._queries.range, self.name, from_key, to_key, _PAGE, cursor))
            for entry in page.entries:
                yield entry.key, entry.value
            if page.cursor is None:
                return
            cursor = page.cursor

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every entry."""
        return self.range(None, None)

    def approximate_num_entries(self) -> int:
        """About how many entries there are, all tasks together."""
        return self._run(lambda: self._queries.approximate_num_entries(self.name))

    def close(self) -> None:
        """End the thread that asks; a call that waits for its answer raises ApplicationStateError. Idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _warn_of_order(self, from_key: Any, to_key: Any) -> None:
        serde = self._run(lambda: self._queries.key_serde(self.name))
        try:
            empty = ends_before_it_begins(serde, from_key, to_key)
        except SerializationError:  # the query that follows says so too, and of which store
            return
        if empty:
            logger(__name__).warning(
                "the range is empty: it ends before it begins in the order of the serialised keys, in which negative "
                "integers come last",
                store=self.name,
                from_key=from_key,
                to_key=to_key,
            )

    def _run(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._closing:
            if self._closed:
                raise self._end()
            answer = asyncio.run_coroutine_threadsafe(question(), self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise self._end() from None

    def _end(self) -> ApplicationStateError:
        return ApplicationStateError(
            f"application {self._application_id!r} is closed, and with it this view of its store {self.name!r}"
        )


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
