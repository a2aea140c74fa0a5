"""The memory that the stores of all tasks of one thread share."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.state.contracts import StateStore

TRIM_EVERY_RECORDS = 500
UNCACHED_BYTES = 64 << 20
"""Bytes of updates that may wait for a commit if there is no cache, counted as a cache would count them."""

_BESIDE_A_COMMIT = 1.5


class MemoryBudget:
    """The memory that the stores of one thread may take: for updates that wait for the commit, and for committed
    entries that are kept because they may be needed again. Entries are dropped to make room, updates hasten the commit.

    Serves all stores of a thread, as Kafka Streams' ``ThreadCache`` does. ``cache_max_bytes`` limits only updates, as
    Kafka Streams counts them; ``max_bytes`` limits all entries by the memory that they take: docs/decisions/0012.
    """

    def __init__(self, cache_max_bytes: int, max_bytes: int) -> None:
        self._cache_max_bytes = cache_max_bytes or UNCACHED_BYTES
        self._max_bytes = max_bytes
        self._records = 0
        self._stores: list[StateStore] = []

    def add(self, stores: Iterable[StateStore]) -> None:
        """Count these stores too."""
        self._stores += stores

    def remove(self, stores: Iterable[StateStore]) -> None:
        """Count these stores no longer: their task is closed."""
        self._stores = [store for store in self._stores if store not in set(stores)]

    @property
    def needs_commit(self) -> bool:
        """True if the updates that wait exceed either limit: only a commit can make room."""
        return (
            sum([store.dirty_cache_bytes() for store in self._stores]) > self._cache_max_bytes
            or sum([store.dirty_resident_bytes() for store in self._stores]) > self._max_bytes
        )

    @property
    def is_full(self) -> bool:
        """True if records must wait for the commit that is under way. What it flushes and what was updated since may
        take half as much again as entries otherwise may."""
        return self.needs_commit or (
            sum([store.dirty_resident_bytes() + store.flushed_resident_bytes() for store in self._stores])
            > self._max_bytes * _BESIDE_A_COMMIT
        )

    def count_processed(self, records: int) -> None:
        """Count processed records, and make room now and then: a look at every store costs more than a few records."""
        self._records += records
        if self._records >= TRIM_EVERY_RECORDS:
            self._records = 0
            self.trim()

    def trim(self) -> None:
        """Drop unused entries until all stores are within the budget, or none has any left."""
        while sum([store.resident_bytes() for store in self._stores]) > self._max_bytes:
            dropped = [store.drop_unused() for store in self._stores]
            if not any(dropped):
                return
