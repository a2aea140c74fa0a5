"""Rows by key, the last one of each: in memory while they are few, on the executor's disk beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from penstock.common.records import Headers
from penstock.pipeline.task_hosts.stores import TaskDisk
from penstock.state.contracts import CommittedStore, TaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder

Row = tuple[bytes, bytes | None, int, Headers | None]
"""Key, value (None: a deletion), timestamp and headers of a record."""
_Rest = tuple[bytes | None, int, list[tuple[str, bytes | None]] | None]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Rest).decode
_ROW_BYTES = 350
"""Approximate bytes that a row takes in memory, in addition to its key and value."""


class SortedRows:
    """The last row of each key. ``name`` is that of their database in ``disk``.

    ``deletions``: True if deletions are rows, too. Else they only remove the row of their key.
    """

    def __init__(self, name: str, disk: TaskDisk, deletions: bool = True) -> None:
        self.bytes_in_memory = 0
        self.last_key: bytes | None = None
        """The key of the last row that was put."""
        self._name = name
        self._disk = disk
        self._deletions = deletions
        self._recent: dict[bytes, tuple[bytes | None, int, Headers | None]] = {}
        self._spilled = 0
        self._left = 0
        self._stores: TaskStores | None = None

    def put(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """Set the row of ``key``."""
        before = self._recent.get(key)
        self._recent[key] = (value, timestamp, headers)
        self.last_key = key
        self.bytes_in_memory += 0 if value is None else len(value)
        if before is None:
            self.bytes_in_memory += _ROW_BYTES + len(key)
        elif before[0] is not None:
            self.bytes_in_memory -= len(before[0])

    @property
    def in_memory(self) -> int:
        """The number of rows in memory."""
        return len(self._recent)

    def spill(self) -> None:
        """Move the rows in memory to disk."""
        if not self._recent:
            return
        if self._stores is None:
            self._stores = self._disk.open(self._name, [KeyValueStoreBuilder(self._name)])
        rows = {
            key: None if row[0] is None and not self._deletions else _encode(row) for key, row in self._recent.items()
        }
        batch = self._stores.new_batch()
        for _ in batch.put_all(self._name, rows):
            pass
        self._stores.write(batch, {})
        self._spilled += len(rows)
        self._recent = {}
        self.bytes_in_memory = 0

    def forget(self, needless: Callable[[bytes, bytes | None], bool]) -> None:
        """Remove the rows for which ``needless(key, value)`` is True, once the number of rows has doubled since the
        last call that did so."""
        if len(self._recent) + self._spilled <= 2 * self._left:
            return
        self._recent = {key: row for key, row in self._recent.items() if not needless(key, row[0])}
        self.bytes_in_memory = sum(_ROW_BYTES + len(key) + len(row[0] or b"") for key, row in self._recent.items())
        if self._stores is not None:
            self._spilled = 0
            batch = self._stores.new_batch()
            for key, data in self._on_disk().scan(None, None):
                if needless(key, _decode(data)[0]):
                    batch.delete(self._name, key)
                else:
                    self._spilled += 1
            self._stores.write(batch, {})
        self._left = len(self._recent) + self._spilled

    def remove_before(self, key: bytes) -> None:
        """Remove the rows whose keys are smaller."""
        if self._recent:
            self._recent = {each: row for each, row in self._recent.items() if each >= key}
        if self._stores is not None:
            batch = self._stores.new_batch()
            batch.delete_range(self._name, b"", key)
            self._stores.write(batch, {})

    def headers(self, key: bytes) -> Headers | None:
        """Returns the headers of the row of ``key``; None if there is no row, or it has none."""
        if key in self._recent:
            return self._recent[key][2]
        data = None if self._stores is None else self._on_disk().get(key)
        return None if data is None else _decode(data)[2]

    def rows(self) -> Iterator[Row]:
        """Yields the rows by their keys. Nothing may be put meanwhile."""
        if self._stores is None:
            for key in sorted(self._recent):
                row = self._recent[key]
                if row[0] is not None or self._deletions:
                    yield key, *row
            return
        self.spill()
        for key, data in self._on_disk().scan(None, None):
            yield key, *_decode(data)

    def _on_disk(self) -> CommittedStore:
        assert self._stores is not None
        return self._stores.store(self._name)
