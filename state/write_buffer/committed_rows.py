"""The committed rows of one store, as its write buffer reads them: from disk, except those that memory has as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.state.contracts import CommittedStore
from penstock.state.write_buffer.kept_entries import KeepFlushed
from penstock.state.write_buffer.kept_rows import KeptRows
from penstock.state.write_buffer.prefetched_rows import PrefetchedRows

_UNKNOWN: Any = object()

# Rows that a commit has flushed are kept if more than one row for this many was read since the commit before.
_READ_SHARE = 8

_KEPT_AT_ONCE = 2048


class CommittedRows:
    """Reads the rows of ``committed``, and keeps some as bytes while memory is too short to keep their entries: if
    ``allows_bytes``, for which no row may change except by a flush.

    ``misses`` counts the rows that were needed and not kept, prefetched ones included.
    """

    def __init__(self, committed: CommittedStore) -> None:
        self.misses = 0
        self.allows_bytes = False
        self.prefetched = PrefetchedRows(committed)
        self.kept = KeptRows()
        self.committed = committed
        self._pop_prefetched = self.prefetched.rows.pop
        self._keep_flushed = KeepFlushed()
        self._misses_of_updates = 0
        self._reads_before = 0
        self._keeps_flushed_rows = False

    @property
    def resident_bytes(self) -> float:
        """Approximate bytes that the rows in memory take in the process."""
        return self.prefetched.resident_bytes + self.kept.resident_bytes

    def read(self, key: bytes, to_update: bool) -> bytes | None:
        """Returns the row of ``key``, None if there is none. ``to_update``: the key is put next."""
        row: bytes | None = self.kept.get(key, _UNKNOWN)
        if row is not _UNKNOWN:
            return row
        try:
            row = self._pop_prefetched(key)
        except KeyError:
            row = self.committed.get(key)
        self.misses += 1
        if to_update:
            self._misses_of_updates += 1
        if self.allows_bytes and self._keep_flushed.as_bytes:
            self.kept.put(key, row)
        return row

    def look_at(self, key: bytes) -> bytes | None:
        """Like :meth:`read`, but neither counts nor keeps the row."""
        row: bytes | None = self.kept.get(key, _UNKNOWN)
        return self.committed.get(key) if row is _UNKNOWN else row

    def prefetch(self, keys: list[bytes]) -> None:
        """Read the rows of ``keys``, which the buffer needs soon and does not hold."""
        rows, kept = self.prefetched.rows, self.kept
        self.prefetched.read([key for key in keys if key not in rows and key not in kept])

    # ---- commit ----

    def begin_flush(self, updates: int, flushed: int) -> bool:
        """Decide the form in which to keep what a commit flushes: ``flushed`` of all ``updates`` since the store was
        opened. Returns True if the buffer is to keep the entries."""
        keeps = self._keep_flushed.begin_flush(self._misses_of_updates, updates)
        reads = self.kept.hits + self.misses
        is_read, self._reads_before = (reads - self._reads_before) * _READ_SHARE > flushed, reads
        as_bytes = self.allows_bytes and self._keep_flushed.as_bytes
        self._keeps_flushed_rows = as_bytes and is_read
        return keeps and not as_bytes

    def flushed(self, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        """Take note of the rows that a commit is about to write. Gives way now and then.

        Until the batch is written the buffer knows their entries, and asks for none of these rows.
        """
        if not self._keeps_flushed_rows:
            self.kept.discard_all(rows)
            return
        index = 0
        while index := self.kept.put_some(rows, index, _KEPT_AT_ONCE):
            yield

    def batch_written(self) -> None:
        """Forget the prefetched rows: the batch is on disk, and they may have changed."""
        if self.prefetched.rows:
            self.prefetched.clear()

    # ---- memory ----

    def memory_was_full(self, updates: int) -> None:
        """Note that the buffer has dropped committed entries to make room, after ``updates`` updates in all."""
        self.prefetched.clear()
        self._keep_flushed.memory_was_full(self._misses_of_updates, updates)

    def drop_some(self) -> bool:
        """Drop some of the rows that are kept. Returns False if there are none."""
        return self.kept.drop_some()

    def forget(self) -> None:
        """Read all rows from disk again."""
        self.prefetched.clear()
        self.kept.clear()
