"""The timestamped key-value store whose rows expire: ``with_ttl``.

A row expires when stream time reaches the time of its last update plus the TTL; the task then calls
:meth:`TtlStateStore.expire`. The row is deleted like any other, so changelog, cache and queries know nothing of TTLs.
The store has two sections: the rows of keys, and rows that note when keys may expire (``expiry_index.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.key_value.expiry_index import ExpiryIndex
from penstock.state.key_value.store import KeyValueStateStore
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, Entry
from penstock.state.rows.sections import SectionBatch, SectionRows
from penstock.state.write_buffer.write_buffer import WriteBuffer

_ROWS, _INDEX = b"r", b"t"


class TtlBuffer(WriteBuffer):
    """Notes each new key in the index, and takes nothing that has expired already."""

    def __init__(
        self, name: str, value_serde: Serde[Any] | None, context: StateStoreContext, index: ExpiryIndex
    ) -> None:
        super().__init__(name, value_serde, TIMESTAMPED_VALUE, context)
        self.latest_expired = -1
        """Rows that were updated up to this time have expired (ms): stream time less the TTL."""
        self._index = index
        self._drop_record = context.drop_record

    @override
    def load_to_update(self, key: bytes) -> Entry:
        return self.load(key)  # and keep it: put looks it up, too

    def look_at(self, key: bytes) -> Entry:
        """Returns the entry of a key that may have expired. Does not keep it: after a jump in time, all may have."""
        return self.dirty.get(key) or super().load_to_update(key)

    @override
    def put(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        if value is not None:
            if timestamp <= self.latest_expired:
                self._drop_record()
                return
            before, noted_at, _, _ = self.dirty.get(key) or self.load(key)
            if before is None or timestamp < noted_at:
                self._index.add(timestamp, key)
        super().put(key, value, timestamp, headers)


class TtlStateStore(KeyValueStateStore):
    """A timestamped key-value store with a TTL of ``ttl_ms``."""

    restores_blindly = False
    buffer: TtlBuffer

    def __init__(self, builder: AnyStoreBuilder, ttl_ms: int, context: StateStoreContext) -> None:
        rows, index = (SectionRows(context.committed, front, sections=2) for front in (_ROWS, _INDEX))
        self.ttl_ms = ttl_ms
        self._continues_from = LARGEST_TIMESTAMP
        self.index = ExpiryIndex(builder.name, replace(context, committed=index))
        buffer = TtlBuffer(builder.name, builder.value_serde, replace(context, committed=rows), self.index)
        super().__init__(builder, TIMESTAMPED_VALUE, context, buffer)

    @staticmethod
    def is_of_index(row_key: bytes) -> bool:
        """Returns True if a row on disk notes when another is to be looked at again."""
        return row_key.startswith(_INDEX)

    # ---- time ----

    def may_expire(self, stream_time: int) -> bool:
        """Set the stream time. Returns True if :meth:`expire` has keys to look at."""
        self.buffer.latest_expired = latest = stream_time - self.ttl_ms
        return self.index.first_ms <= latest

    def expire(self, stream_time: int) -> Iterator[tuple[bytes, Any, int]]:
        """Delete what has expired, by time, then by key. Yields (key, value, time of expiry) of each row it deletes."""
        self.buffer.latest_expired = latest = stream_time - self.ttl_ms
        for noted_at, key in self.index.take_out(latest):
            entry = self.buffer.look_at(key)
            if entry[0] is None:
                continue  # was deleted
            updated_at = max(entry[1], 0)
            if updated_at > noted_at:
                self.index.add(updated_at, key)
                continue
            self.buffer.put(key, None, updated_at + self.ttl_ms, None)
            yield key, entry[0], updated_at + self.ttl_ms

    @override
    def continue_from(self, stream_time: int) -> None:
        self._continues_from = LARGEST_TIMESTAMP if stream_time < 0 else stream_time

    # ---- commit and restore ----

    @property
    @override
    def has_changes(self) -> bool:
        return bool(self.buffer.dirty) or bool(self.index.buffer.dirty)

    @override
    def freeze(self) -> None:
        self.buffer.freeze()
        self.index.buffer.freeze()

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        yield from self.buffer.flush(SectionBatch(batch, _ROWS))
        yield from self.index.buffer.flush(SectionBatch(batch, _INDEX))

    @override
    def batch_written(self) -> None:
        self.buffer.batch_written()
        self.index.buffer.batch_written()

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self.forget_objects()
        last: dict[bytes, tuple[bytes | None, int]] = {}
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if value is None and timestamp > self._continues_from and timestamp == self._expires_at(key, last):
                continue  # it expired after the commit: it will again, and downstream gets that deletion
            last[key] = value, timestamp
        row, row_key = self.row_format.row, self.index.row_key
        rows: dict[bytes, bytes | None] = {}
        for key, (value, timestamp) in last.items():
            rows[_ROWS + key] = None if value is None else row(value, timestamp)
            if value is not None:
                rows[_INDEX + row_key(timestamp, key)] = b""
        for _ in batch.put_all(self.name, rows):
            pass

    def _expires_at(self, key: bytes, restored: Mapping[bytes, tuple[bytes | None, int]]) -> int | None:
        """Returns when the row of ``key`` expires, as of what is ``restored`` or committed; None if there is none."""
        if key in restored:
            value, updated_at = restored[key]
            return None if value is None else max(updated_at, 0) + self.ttl_ms
        row = self.buffer.committed.get(key)
        return None if row is None else max(self.row_format.value_and_timestamp(row)[1], 0) + self.ttl_ms

    @override
    def wiped(self) -> None:
        self.forget_objects()

    # ---- memory ----

    @override
    def forget_objects(self) -> None:
        self.buffer.forget_objects()
        self.index.buffer.forget_objects()
        self.index.forget_order()

    @property
    @override
    def buffers(self) -> tuple[WriteBuffer, ...]:
        return self.buffer, self.index.buffer
