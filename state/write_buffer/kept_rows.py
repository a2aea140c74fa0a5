"""Committed rows that are kept as the bytes they are, for memory that is too short to keep objects.

An entry of a write buffer takes some 270 B more than its value, a row in ``row_table.pyx`` about 50 B more than its
bytes. So the same memory saves most reads of the disk instead of a quarter of them
(docs/decisions/0022-full-caches.md). If that could not be compiled, the class below is used: its rows take 200 B, and
it drops the oldest rows, used or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

_ROW_BYTES = 200
"""Approximate bytes that a row takes in addition to key and value: two objects and their place in a dictionary."""
_LEAST_DROPPED = 1 << 12


class _KeptRows:
    """Rows by key; None for a key that is known to have no row. The rows that were put first are dropped first."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes | None] = {}
        self.resident_bytes = 0
        self.hits = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def get(self, key: bytes, unknown: Any) -> Any:
        """The row of ``key``, None if there is none, ``unknown`` if that is not known here."""
        row = self._rows.get(key, unknown)
        if row is not unknown:
            self.hits += 1
        return row

    def put(self, key: bytes, row: bytes | None) -> None:
        """Keep the row of ``key`` in place of the one before; None: it has none."""
        if key in self._rows:
            self._remove(key)
        self._rows[key] = row
        self.resident_bytes += _bytes_of(key, row)

    def put_some(self, rows: dict[bytes, bytes | None], index: int, most: int) -> int:
        """Put the next ``most`` of ``rows``, from ``index`` on, which is 0 at first. Returns the position of the
        next call, 0 if none is left. ``rows`` must not be changed in between."""
        for key, row in islice(rows.items(), index, index + most):
            self.put(key, row)
        return index + most if index + most < len(rows) else 0

    def discard_all(self, rows: Iterable[bytes]) -> None:
        """Forget the rows of these keys, if they are here: they have changed."""
        for key in rows:
            if key in self._rows:
                self._remove(key)

    def drop_some(self) -> bool:
        """Drop a part of the rows. Returns False if there are none."""
        least, before = max(_LEAST_DROPPED, self.resident_bytes // 16), self.resident_bytes
        dropped = bool(self._rows)
        while self._rows and before - self.resident_bytes < least:
            self._remove(next(iter(self._rows)))
        return dropped

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()
        self.resident_bytes = 0

    def _remove(self, key: bytes) -> None:
        self.resident_bytes -= _bytes_of(key, self._rows.pop(key))


def _bytes_of(key: bytes, row: bytes | None) -> int:
    return _ROW_BYTES + len(key) + len(row or b"")


try:
    from penstock.state.write_buffer.row_table import KeptRows as KeptRows
except ImportError:  # it could not be compiled here
    KeptRows = _KeptRows  # type: ignore[misc,assignment]  # with the same methods
