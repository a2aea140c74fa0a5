"""The changelogs that a task on Spark leaves: at its end one record for each key, read from its stores or kept on disk.

A record for each update, as live, would be of no use: only the last one of each key restores anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from typing_extensions import override

from penstock.common.records import Headers
from penstock.pipeline.task_hosts.sorted_rows import Row, SortedRows
from penstock.pipeline.task_hosts.stores import TaskDisk
from penstock.state.contracts import StateStore

_MEMORY_BYTES = 32 << 20
"""Bytes of records that a task keeps in memory; after a commit that finds more, they go to disk."""
_TIME_BYTES = 8
Put = Callable[[bytes, "bytes | None", int, "Headers | None"], None]
"""Takes key, value (None: a deletion), timestamp and headers of a record."""


class TaskChangelog(Protocol):
    """The changelog of one store of one task."""

    @property
    def put(self) -> Put:
        """The function that takes a record that the store has sent."""

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of the records that are kept in memory."""

    def committed(self) -> None:
        """Called after each commit."""

    def rows(self) -> Iterator[Row]:
        """Yields the records that the changelog must get, after the last commit."""


class StoreItself(TaskChangelog):
    """The changelog of a store whose rows tell its records: they are read at the end. Kept are only the headers that
    records have and rows do not.

    Only for one that was empty: it needs no record about what the store has no more.
    """

    def __init__(self, topic: str, store: StateStore, disk: TaskDisk, *, logs_headers: bool) -> None:
        self._store = store
        self._logs_headers = logs_headers
        self._with_headers = SortedRows(topic, disk)

    @property
    @override
    def put(self) -> Put:
        return self._put_headers if self._logs_headers else _ignore

    def _put_headers(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
        # Without headers, too, if there were any before: the last record of a key counts.
        if headers or self._with_headers.last_key is not None:
            self._with_headers.put(key, b"", timestamp, headers)

    @property
    @override
    def bytes_in_memory(self) -> int:
        return self._with_headers.bytes_in_memory

    @override
    def committed(self) -> None:
        if self.bytes_in_memory > _MEMORY_BYTES // 2:
            self._with_headers.spill()

    @override
    def rows(self) -> Iterator[Row]:
        rows = self._store.changelog_rows()
        assert rows is not None
        if self._with_headers.last_key is None:
            return rows
        headers = self._with_headers.headers
        return ((key, value, timestamp, own or headers(key)) for key, value, timestamp, own in rows)


class KeptRecords(TaskChangelog):
    """The last record of each key, kept as they come. ``was_empty``: the changelog had no record before, so that none
    must be deleted. ``expires``: it deletes rows that expire, so that these need not be written."""

    def __init__(self, topic: str, store: StateStore, disk: TaskDisk, *, was_empty: bool, expires: bool) -> None:
        self._store = store
        self._was_empty = was_empty
        self._expires = expires
        self._kept = SortedRows(topic, disk, deletions=not was_empty)

    @property
    @override
    def put(self) -> Put:
        return self._kept.put

    @property
    @override
    def bytes_in_memory(self) -> int:
        return self._kept.bytes_in_memory

    @override
    def committed(self) -> None:
        if self._expires:
            self._kept.forget(self._needless)
        if self._kept.bytes_in_memory > _MEMORY_BYTES // 2:
            self._kept.spill()

    @override
    def rows(self) -> Iterator[Row]:
        # A store with duplicates continues from the number in its last record: the one that was sent last leaves last.
        last: Row | None = None
        for row in self._kept.rows():
            if self._needless(row[0], row[1]):
                continue
            if self._expires and row[0] == self._kept.last_key:
                last = row
            else:
                yield row
        if last is not None:
            yield last

    def _needless(self, key: bytes, value: bytes | None) -> bool:
        if value is None:
            return self._was_empty
        return self._expires and self._store.changelog_record(key)[0] is None


class KeptHistories(TaskChangelog):
    """The histories of the keys that were changed, by time: a restore takes records of the past only in this order.

    If the changelog has records already, versions that these would restore but that are gone must be deleted: by the
    deletions sent since, and, as the store knows nothing of the time before :attr:`StateStore.histories_kept_from`, by
    one of that time.
    """

    def __init__(self, topic: str, store: StateStore, disk: TaskDisk, *, was_empty: bool) -> None:
        self._store = store
        self._was_empty = was_empty
        self._keys = SortedRows(f"{topic}.keys", disk)
        self._by_time = SortedRows(f"{topic}.times", disk)

    @property
    @override
    def bytes_in_memory(self) -> int:
        return self._keys.bytes_in_memory + self._by_time.bytes_in_memory

    @property
    @override
    def put(self) -> Put:
        return self._put

    def _put(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
        self._keys.put(key, b"", 0, None)
        if value is None and not self._was_empty:
            self._by_time.put(_at(timestamp) + key, None, timestamp, None)

    @override
    def committed(self) -> None:
        if self.bytes_in_memory > _MEMORY_BYTES // 2:
            self._keys.spill()
            self._by_time.remove_before(_at(self._store.histories_kept_from))
            self._by_time.spill()

    @override
    def rows(self) -> Iterator[Row]:
        kept_from = self._store.histories_kept_from
        self._by_time.remove_before(_at(kept_from))
        for key, *_ in self._keys.rows():
            history = self._store.changelog_history(key) or ()
            for value, timestamp in history:
                self._by_time.put(_at(timestamp) + key, value, timestamp, None)
            if not self._was_empty and kept_from > 0 and (not history or history[0][1] > kept_from):
                self._by_time.put(_at(kept_from) + key, None, kept_from, None)
            if self._by_time.bytes_in_memory > _MEMORY_BYTES // 2:
                self._by_time.spill()
        for key, value, timestamp, headers in self._by_time.rows():
            yield key[_TIME_BYTES:], value, timestamp, headers


def changelog_of(
    topic: str, store: StateStore, disk: TaskDisk, *, was_empty: bool, expires: bool, logs_headers: bool
) -> TaskChangelog:
    """Returns the changelog ``topic`` of ``store``, which is restored. ``logs_headers``: see StoreBuilder."""
    if store.changelog_history(b"") is not None:  # it has histories, of any key
        return KeptHistories(topic, store, disk, was_empty=was_empty)
    if was_empty and store.changelog_rows() is not None:
        return StoreItself(topic, store, disk, logs_headers=logs_headers)
    return KeptRecords(topic, store, disk, was_empty=was_empty, expires=expires)


def must_commit(changelogs: Iterable[TaskChangelog]) -> bool:
    """Returns True if the records in memory are so many that a commit is due, after which they can go to disk."""
    return sum(changelog.bytes_in_memory for changelog in changelogs) > _MEMORY_BYTES


def _at(timestamp: int) -> bytes:
    return max(timestamp, 0).to_bytes(_TIME_BYTES, "big")


def _ignore(key: bytes, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
    pass
