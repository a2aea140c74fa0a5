"""A state store as a plain object of the driver: the read side for code without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from penstock.cluster.queries import StateQueries

T = TypeVar("T")
_PAGE = 1000


class ReadOnlyKeyValueStore:
    """All tasks' parts of one store, read over actor calls. Mirrors ``ReadOnlyKeyValueStore``.

    Every call may raise UnknownStateStoreError, TaskNotReadyError (a task restores or moves: try again) or
    ApplicationStateError (the application does not run). What is not committed yet is seen.
    """

    def __init__(self, application_id: str, name: str) -> None:
        self.name = name
        self._queries = StateQueries(application_id)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"penstock-store-{name}", daemon=True)
        self._thread.start()

    def get(self, key: Any) -> Any | None:
        """The value of ``key``, None when absent."""
        entry = self._run(self._queries.get(self.name, key))
        return entry.value if entry is not None else None

    def range(self, from_key: Any | None, to_key: Any | None) -> Iterator[tuple[Any, Any]]:
        """Entries by serialised key, both ends included, None open. Fetched page by page: no snapshot."""
        cursor: str | None = None
        while True:
            page = self._run(self._queries.range(self.name, from_key, to_key, _PAGE, cursor))
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
        return self._run(self._queries.approximate_num_entries(self.name))

    def close(self) -> None:
        """End the thread that asks. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, question: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()
