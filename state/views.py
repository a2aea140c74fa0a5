"""Stores as a processor sees them: typed keys and values. The engine's side: ``contracts.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol

from typing_extensions import TypeVar

from penstock.common.shown import shown_with_type
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.times import event_time

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", default=Any)


class ValueAndTimestamp(NamedTuple, Generic[T]):
    """A value of a timestamped store with its event time (ms). Mirrors ``ValueAndTimestamp``."""

    value: T
    timestamp: int


def taken(store: str, kind: str, value: object) -> tuple[Any, int]:
    """Returns value and timestamp of the object that a program puts into a timestamped ``kind`` store. Raises TypeError
    for all but a :class:`ValueAndTimestamp` with a whole number of ms: any text of two letters, pair or list of two
    could be unpacked like one. Raises ValueError for a time that is negative or has more than 63 bits.
    """
    if not isinstance(value, ValueAndTimestamp):
        raise TypeError(
            f"store {store} is a timestamped {kind} store: put ValueAndTimestamp(value, timestamp), not "
            f"{shown_with_type(value)}"
        )
    timestamp = value.timestamp
    if type(timestamp) is int and 0 <= timestamp <= LARGEST_TIMESTAMP:
        return value
    return value.value, event_time(store, "a timestamp", timestamp)


class KeyValueStore(Protocol[K, V]):
    """A key-value store as a processor sees it. Mirrors ``KeyValueStore``.

    Keys may not be None; a None value deletes. Ranges are ordered by the *serialised* key, both ends included, so
    signed numbers sort wrongly across zero. Iterators see the store as it was when they were made.

    Until the commit a store holds the objects themselves. So an object that it returned, or that was put into it, must
    not be changed: put a new object instead (docs/PROGRAMS.md).
    """

    name: str

    def get(self, key: K) -> V | None:
        """The value of ``key``, None if absent. Not a copy: do not change it, ``put`` a new one."""

    def put(self, key: K, value: V | None) -> None:
        """Set the value of ``key``, or with None delete it."""

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Set the value of ``key`` unless it has one. Returns the value before, None if there was none."""

    def put_all(self, entries: Sequence[tuple[K, V | None]]) -> None:
        """``put`` for each pair, in order."""

    def delete(self, key: K) -> V | None:
        """Delete ``key``. Returns the value before, None if there was none."""

    def range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V]]:
        """Entries from ``from_key`` to ``to_key``, both included; None is open."""

    def reverse_range(self, from_key: K | None, to_key: K | None) -> Iterator[tuple[K, V]]:
        """Like :meth:`range`, backwards."""

    def all(self) -> Iterator[tuple[K, V]]:
        """Every entry."""

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Every entry, backwards."""

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """Entries whose serialised key begins with ``prefix``."""

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of entries."""
