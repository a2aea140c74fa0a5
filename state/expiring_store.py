"""What window stores and session stores do alike for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.windows import Windowed
from penstock.state.contracts import CommitBatch, StateStore, StateStoreContext
from penstock.state.expiring_rows import EntryRow, ExpiringRows
from penstock.state.queries import QueryRow
from penstock.state.row_formats import NO_TIMESTAMP
from penstock.state.windowed_keys import changelog_key

FlushListener = Callable[[Windowed[bytes], Any, Any, int, Headers | None], None]
"""Hears of each flushed update: (windowed key bytes, new value, old value or None, timestamp, headers)."""


class ExpiringStateStore(StateStore):
    """A store whose content is ``rows``. Operators of the DSL work on it by key bytes."""

    def __init__(self, rows: ExpiringRows, context: StateStoreContext) -> None:
        super().__init__(rows.name, context)
        self.rows = rows

    def listen(self, listener: FlushListener, old_values: bool) -> None:
        """Have ``listener`` hear of each update that a store with caching flushes, once per windowed key and commit.

        Without ``old_values`` it is told None in place of each old one.
        """
        key, window = self.rows.key, self.rows.schema.window

        def on_flush(row_key: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
            listener(Windowed(key(row_key), window(row_key)), new, old, timestamp, headers)

        self.rows.buffer.listen(on_flush, old_values)

    @property
    @override
    def has_changes(self) -> bool:
        return bool(self.rows.buffer.dirty)

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        return self.rows.flush(batch)

    @override
    def batch_written(self) -> None:
        self.rows.batch_written()

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self.rows.restore(batch, keys, values, timestamps)

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        row = self.rows.committed_row(key)
        if row is None:
            return None, 0
        value, timestamp = self.rows.row_format.value_and_timestamp(row)
        return value, 0 if timestamp == NO_TIMESTAMP else timestamp

    def query_row(self, row: EntryRow) -> QueryRow:
        """``row`` as queries are answered."""
        row_key, (value, timestamp, *_) = row
        return QueryRow(changelog_key(row_key), value, timestamp if self.rows.row_format.has_timestamp else None)

    @override
    def forget_objects(self) -> None:
        self.rows.buffer.forget_objects()

    @override
    def resident_bytes(self) -> float:
        return self.rows.buffer.resident_bytes()

    @override
    def dirty_resident_bytes(self) -> float:
        return self.rows.buffer.dirty_resident_bytes()

    @override
    def dirty_cache_bytes(self) -> int:
        return self.rows.buffer.dirty_cache_bytes()

    @override
    def drop_unused(self) -> bool:
        return self.rows.buffer.drop_unused()
