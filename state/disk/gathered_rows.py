"""Rows that are gathered in memory, to be written in the order of their keys. ``row_runs.pyx`` has the same, compiled.

A restore of many records uses it: RocksDB takes rows in order four times as fast as it takes them as they come
(docs/decisions/0017-restore-by-files.md). This form sorts all rows in one step, which may take some 50 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from itertools import islice
from typing import Any

_ROW_BYTES = 150
"""Approximate bytes that a row takes in addition to its own: two objects and their place in a dictionary."""


class _GatheredRows:
    """The last row of each key, None if that was a deletion. First rows are added, then they are written."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes | None] = {}
        self._added_bytes = 0
        self._unwritten: Iterator[bytes] | None = None

    @property
    def resident_bytes(self) -> int:
        """Approximate bytes that the rows take in the process."""
        return self._added_bytes

    def add(self, rows: dict[bytes, bytes | None]) -> None:
        """Add rows that came later than all that were added before."""
        self._rows.update(rows)
        self._added_bytes += sum(map(len, rows)) + sum([len(row) for row in rows.values() if row is not None])
        self._added_bytes += len(rows) * _ROW_BYTES

    def delete_range(self, from_key: bytes, to_key: bytes) -> None:
        """Forget the rows from ``from_key`` up to, but not including, ``to_key``. Rows that are added later stay."""
        for key in [key for key in self._rows if from_key <= key < to_key]:
            del self._rows[key]

    def write(self, writer: MutableMapping[bytes, bytes], most: int) -> int:
        """Put the next ``most`` rows to ``writer``, in order, or delete what is to be deleted. Returns their number, 0
        after the last one."""
        if self._unwritten is None:
            self._unwritten = iter(sorted(self._rows))
        rows, written = self._rows, 0
        for key in islice(self._unwritten, most):
            row = rows[key]
            if row is None:
                del writer[key]
            else:
                writer[key] = row
            written += 1
        return written


GatheredRows: Any
try:
    from penstock.state.disk.row_runs import GatheredRows as GatheredRows
except ImportError:  # it could not be compiled here
    GatheredRows = _GatheredRows
