"""The memory that the stores of all tasks of one thread share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

TRIM_EVERY_RECORDS = 500


class CachedStore(Protocol):
    """A store that holds entries in memory."""

    def resident_bytes(self) -> float:
        """About what all of them take in the process."""

    def waiting_bytes(self) -> float:
        """The part of it that updates take which wait for the commit."""

    def age(self) -> bool:
        """Let go of committed entries that were not used since the last call; False when there is none."""


class ThreadCache:
    """How much memory the stores of one thread may take: updates that wait for the commit, and committed entries that
    are kept because they may be needed again. The latter make room.

    Mirrors ``ThreadCache`` in that one budget serves all stores of a thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._records = 0
        self._stores: list[CachedStore] = []

    def add(self, stores: Iterable[CachedStore]) -> None:
        """Count these stores too."""
        self._stores += stores

    def remove(self, stores: Iterable[CachedStore]) -> None:
        """Their task is closed."""
        self._stores = [store for store in self._stores if store not in set(stores)]

    @property
    def full(self) -> bool:
        """Whether the updates that wait are too many by themselves: then only a commit can make room."""
        return sum([store.waiting_bytes() for store in self._stores]) > self._max_bytes

    def processed(self, records: int) -> None:
        """Make room now and then: looking at every store costs more than a few records do."""
        self._records += records
        if self._records >= TRIM_EVERY_RECORDS:
            self._records = 0
            self.trim()

    def trim(self) -> None:
        """Make room where there is need."""
        while sum([store.resident_bytes() for store in self._stores]) > self._max_bytes:
            aged = [store.age() for store in self._stores]
            if not any(aged):
                return
