"""Reads the rows that a batch of records may need from disk all at once, if that pays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.state.contracts import StateStore


class ReadAhead:
    """Reads ahead for one source partition: its records look up in ``stores`` under the key they have there."""

    def __init__(self, stores: Iterable[StateStore]) -> None:
        self._stores = list(stores)
        self._misses = [0] * len(self._stores)
        self._worth = [False] * len(self._stores)
        self._queued = 0

    def add(self, keys: Sequence[bytes | None], waiting: int) -> None:
        """Read ahead for records with ``keys``, after ``waiting`` ones that are not processed yet, if that pays."""
        processed = self._queued - waiting
        self._queued = waiting + len(keys)
        for number, store in enumerate(self._stores):
            if processed > 0:
                # Only if many of the records processed since needed a row from disk. Rows that were prefetched
                # count when they are used: a filter may come before the store.
                self._worth[number] = (store.misses - self._misses[number]) * 8 > processed
                self._misses[number] = store.misses
            if self._worth[number]:
                store.prefetch(keys)
