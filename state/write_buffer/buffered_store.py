"""The base of stores whose changes wait for the commit in a write buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from typing_extensions import override

from penstock.common.records import Headers
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import ChangelogRow, CommitBatch, StateStore, StateStoreContext
from penstock.state.queries import QueryRow
from penstock.state.rows.header_rows import HeaderRows, read_headers
from penstock.state.rows.row_formats import NO_TIMESTAMP, Entry, EntryRow
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.write_buffer.flush_listeners import OnFlush
from penstock.state.write_buffer.write_buffer import WriteBuffer


class BufferedStateStore(StateStore):
    """A store with its changes in ``buffer``, by the keys of its rows. Operators of the DSL work on it by key bytes.

    Each kind adds its view, its queries and its restore.
    """

    takes_changes_while_committed = True

    def __init__(self, builder: AnyStoreBuilder, buffer: WriteBuffer, context: StateStoreContext) -> None:
        if builder.key_serde is None:
            raise ValueError(f"store {builder.name} was not given a key serde")
        super().__init__(builder.name, context)
        self.buffer = buffer
        self._key_serde = builder.key_serde
        self.row_format = buffer.row_format

    @property
    @override
    def has_changes(self) -> bool:
        return bool(self.buffer.dirty)

    @override
    def freeze(self) -> None:
        self.buffer.freeze()

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        return self.buffer.flush(batch)

    @override
    def batch_written(self) -> None:
        self.buffer.batch_written()

    def typed_keys(self) -> TypedKeys:
        """Returns the serialiser of the keys of one view."""
        return TypedKeys(self.name, self._key_serde)

    def listen(self, on_flush: OnFlush, old_values: bool) -> None:
        """Call ``on_flush`` with each update that a store with caching flushes, once per row and commit.

        Without ``old_values`` it gets None in place of each old value.
        """
        self.buffer.listen(on_flush, old_values)

    # ---- rows ----

    def row_key(self, changelog_key: bytes) -> bytes:
        """Returns the key of the row for a key of the changelog."""
        return changelog_key

    def changelog_key(self, row_key: bytes) -> bytes:
        """Returns the key in the changelog for the key of a row."""
        return row_key

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        row = self.buffer.committed.get(self.row_key(key))
        if row is None:
            return None, 0
        value, timestamp = self.row_format.value_and_timestamp(row)
        return value, 0 if timestamp == NO_TIMESTAMP else timestamp

    @override
    def changelog_headers(self, key: bytes) -> Headers | None:
        if not isinstance(self.row_format, HeaderRows):
            return None
        row = self.buffer.committed.get(self.row_key(key))
        return None if row is None else read_headers(row)[0]

    def changelog_rows_of(
        self, rows: Iterable[tuple[bytes, bytes]], timestamp_of: Callable[[bytes, bytes], int] | None = None
    ) -> Iterator[ChangelogRow] | None:
        """Returns the records of the changelog for these committed rows. ``timestamp_of``: returns the timestamp for
        the key and value of a row; None: the row has it. Returns None if it does not."""
        if timestamp_of is None and not self.row_format.has_timestamp:
            return None
        return map(partial(self._changelog_row, timestamp_of), rows)

    def _changelog_row(
        self, timestamp_of: Callable[[bytes, bytes], int] | None, row: tuple[bytes, bytes]
    ) -> ChangelogRow:
        row_key, data = row
        headers = read_headers(data)[0] or None if isinstance(self.row_format, HeaderRows) else None
        value, timestamp = self.row_format.value_and_timestamp(data)
        if timestamp_of is not None:
            timestamp = timestamp_of(row_key, value)
        return self.changelog_key(row_key), value, timestamp, headers

    def query_row(self, row: EntryRow) -> QueryRow:
        """Returns ``row`` in the form of an answer."""
        row_key, (value, timestamp, *_) = row
        return QueryRow(self.changelog_key(row_key), value, timestamp if self.row_format.has_timestamp else None)

    # ---- memory ----

    @property
    def buffers(self) -> tuple[WriteBuffer, ...]:
        """The buffers whose memory counts: ``buffer``, and those in which a kind keeps other rows of its own."""
        return (self.buffer,)

    @override
    def forget_objects(self) -> None:
        self.buffer.forget_objects()

    @override
    def resident_bytes(self) -> float:
        return sum([buffer.resident_bytes() for buffer in self.buffers])

    @override
    def dirty_resident_bytes(self) -> float:
        return sum([buffer.dirty_resident_bytes() for buffer in self.buffers])

    @override
    def flushed_resident_bytes(self) -> float:
        return sum([buffer.flushed_resident_bytes() for buffer in self.buffers])

    @override
    def dirty_cache_bytes(self) -> int:
        return self.buffer.dirty_cache_bytes()

    @override
    def drop_unused(self) -> bool:
        dropped = [buffer.drop_unused() for buffer in self.buffers]  # each of them, whatever the first one returns
        return any(dropped)


def looked_up(buffer: WriteBuffer, key: bytes, committed: bool) -> Entry | None:
    """The entry of ``key`` for a query, None if there is none; ``committed`` leaves out what no commit has taken.

    It does not use ``buffer.get``: rows that only queries read must not grow the buffer of a task without records.
    """
    entry = None if committed else buffer.peek(key)
    if entry is None and (row := buffer.committed.get(key)) is not None:
        entry = buffer.decode(row)
    return None if entry is None or entry[0] is None else entry
