"""The memory that the stores of all tasks of one thread share."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.state.contracts import StateStore

TRIM_EVERY_RECORDS = 500
UNCACHED_BYTES = 64 << 20
"""So much may wait for a commit where there is no cache, counted as a cache would."""

_BESIDE_A_COMMIT = 1.5


class MemoryBudget:
    """What the stores of one thread may hold: updates that wait for the commit, and committed entries that are kept
    because they may be needed again. The latter make room, the former bring the commit forward.

    Serves all stores of a thread, as Kafka Streams' ``ThreadCache`` does. ``cache_max_bytes`` limits updates alone, as
    Kafka Streams counts them, ``max_bytes`` all entries by what they take in the process: docs/decisions/0012.
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
        """Their task is closed."""
        self._stores = [store for store in self._stores if store not in set(stores)]

    @property
    def needs_commit(self) -> bool:
        """Whether the updates that wait are too many by either limit: only a commit can make room."""
        return (
            sum([store.dirty_cache_bytes() for store in self._stores]) > self._cache_max_bytes
            or sum([store.dirty_resident_bytes() for store in self._stores]) > self._max_bytes
        )

    @property
    def is_full(self) -> bool:
        """Whether records must wait for the commit that is under way. What it flushes and what was updated since may
        take half as much again as entries otherwise may."""
        return self.needs_commit or (
            sum([store.dirty_resident_bytes() + store.flushed_resident_bytes() for store in self._stores])
            > self._max_bytes * _BESIDE_A_COMMIT
        )

    def processed(self, records: int) -> None:
        """Make room now and then: looking at every store costs more than a few records do."""
        self._records += records
        if self._records >= TRIM_EVERY_RECORDS:
            self._records = 0
            self.trim()

    def trim(self) -> None:
        """Make room where there is need."""
        while sum([store.resident_bytes() for store in self._stores]) > self._max_bytes:
            dropped = [store.drop_unused() for store in self._stores]
            if not any(dropped):
                return
