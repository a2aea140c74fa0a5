"""Committed rows that are read before they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.state.contracts import CommittedStore

# Rows that were prefetched and not asked for yet, if ever, may pile up to this size.
MOST_PREFETCHED_BYTES = 4 << 20

# Bytes that such a row takes in addition to its own: two objects and its share of a dictionary.
_ROW_OVERHEAD_BYTES = 200

# Number of rows that are prefetched while their size is unknown.
_FIRST_ROWS = 32


class PrefetchedRows:
    """Rows of ``committed``, by key; None for a key that is known to have no row.

    A reader that needs one pops it from ``rows``, which never changes identity.
    """

    def __init__(self, committed: CommittedStore) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self._committed = committed
        self._mean = 0.0

    @property
    def resident_bytes(self) -> float:
        """Approximate bytes that the rows take in the process."""
        return len(self.rows) * self._mean

    def clear(self) -> None:
        """Forget all rows: they may have been changed."""
        self.rows.clear()

    def read(self, keys: Sequence[bytes]) -> None:
        """Read the rows of ``keys``, which are not in ``rows``, as many as there is room for: by one multi-get, or by
        two while the size of rows is unknown.

        If there is no room, all earlier rows are dropped: they are so old that few can still be needed.
        """
        if self.resident_bytes >= MOST_PREFETCHED_BYTES:
            self.clear()
        rows, taken = self.rows, self.resident_bytes
        while keys and taken < MOST_PREFETCHED_BYTES:
            size = int((MOST_PREFETCHED_BYTES - taken) / self._mean) + 1 if self._mean else _FIRST_ROWS
            now, keys = list(keys[:size]), keys[size:]
            found = self._committed.get_many(now)
            rows.update(zip(now, found, strict=True))
            taken += sum(map(len, filter(None, found))) + len(now) * _ROW_OVERHEAD_BYTES
            self._mean = taken / len(rows)
