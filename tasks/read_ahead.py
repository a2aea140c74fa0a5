"""When the rows that a batch of records may need are worth asking the disk for all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.state.contracts import StateStore


class ReadAhead:
    """Of one source partition: ``stores`` are those that its records look up under the key they have there."""

    def __init__(self, stores: Iterable[StateStore]) -> None:
        self._stores = list(stores)
        self._misses = [0] * len(self._stores)
        self._worth = [False] * len(self._stores)
        self._queued = 0

    def add(self, keys: Sequence[bytes | None], waiting: int) -> None:
        """Records with ``keys`` come, behind ``waiting`` ones that are not processed yet."""
        processed = self._queued - waiting
        self._queued = waiting + len(keys)
        for number, store in enumerate(self._stores):
            if processed > 0:
                # Only where many of the records processed since needed a row from disk. Rows that were prefetched
                # count when they are used: a filter may come before the store.
                self._worth[number] = (store.misses - self._misses[number]) * 8 > processed
                self._misses[number] = store.misses
            if self._worth[number]:
                store.prefetch(keys)
