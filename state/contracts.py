"""What stores promise: to processors (typed), and to the engine (bytes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol

from typing_extensions import TypeVar

K = TypeVar("K", contravariant=True)
V = TypeVar("V")
KI = TypeVar("KI")
T = TypeVar("T", default=Any)


class ValueAndTimestamp(NamedTuple, Generic[T]):
    """A value of a timestamped store with its event time (ms). Mirrors ``ValueAndTimestamp``."""

    value: T
    timestamp: int


class KeyValueStore(Protocol[KI, V]):
    """What a processor sees of a key-value store. Mirrors ``KeyValueStore``.

    Keys may not be None; a None value deletes. Ranges are ordered by the *serialised* key, both ends included, so
    signed numbers sort wrongly across zero. Iterators see the store as it was when they were made.

    Until the commit a store holds the objects themselves. So what it gives must not be changed, nor what was put into
    it: put a new object instead (docs/PROGRAMS.md).
    """

    name: str

    def get(self, key: KI) -> V | None:
        """The value of ``key``, None when absent. Not a copy: do not change it, ``put`` a new one."""

    def put(self, key: KI, value: V | None) -> None:
        """Set, or with None delete."""

    def put_if_absent(self, key: KI, value: V) -> V | None:
        """Set unless there is a value; returns the one that was there."""

    def put_all(self, entries: Sequence[tuple[KI, V | None]]) -> None:
        """``put`` for each pair, in order."""

    def delete(self, key: KI) -> V | None:
        """Delete; returns what was there."""

    def range(self, from_key: KI | None, to_key: KI | None) -> Iterator[tuple[KI, V]]:
        """Entries from ``from_key`` to ``to_key``, both included; None is open."""

    def reverse_range(self, from_key: KI | None, to_key: KI | None) -> Iterator[tuple[KI, V]]:
        """The same, backwards."""

    def all(self) -> Iterator[tuple[KI, V]]:
        """Every entry."""

    def reverse_all(self) -> Iterator[tuple[KI, V]]:
        """Every entry, backwards."""

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[KI, V]]:
        """Entries whose serialised key begins with ``prefix``."""

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""


class CommittedStore(Protocol):
    """The rows of one store that are committed: bytes in, bytes out. Changed only by :class:`TaskStores.write`."""

    def get(self, key: bytes) -> bytes | None:
        """The row of ``key``."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows of ``keys``, in their order. Lets other threads run while it reads."""

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows by key, both ends included, None open. Raises StateStoreError when the data is corrupt."""

    def approximate_num_entries(self) -> int:
        """About how many rows there are."""


class CommitBatch(Protocol):
    """Everything one commit changes, store by store; :meth:`TaskStores.write` applies all of it or nothing."""

    def put(self, store: str, key: bytes, row: bytes) -> None:
        """Set a row."""

    def putter(self, store: str) -> Callable[[bytes, bytes], None]:
        """``put`` for many rows of ``store``: (key, row)."""

    def delete(self, store: str, key: bytes) -> None:
        """Delete a row."""


class TaskStores(Protocol):
    """All stores of one task: one database, one atomic write per commit, changelog offsets in the same write."""

    def store(self, name: str) -> CommittedStore:
        """The committed rows of store ``name``."""

    def new_batch(self) -> CommitBatch:
        """An empty batch."""

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        """Apply ``batch`` and remember, per store, the next changelog offset to restore from. Atomic."""

    def changelog_offset(self, store: str) -> int | None:
        """The next changelog offset to restore from; None when nothing was ever written (start at the beginning)."""

    def wipe(self, store: str) -> None:
        """Forget every row of ``store`` and its offset: the answer to corrupt rows, or to an offset that its changelog
        no longer has. Survives a crash half-way: the store is then found wiped."""

    def close(self) -> None:
        """Release files and locks. Every later call, and every scan not yet exhausted, raises StateStoreError."""
