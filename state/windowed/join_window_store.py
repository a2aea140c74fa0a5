"""The window stores of joins of two streams: each record of one side, kept for the other side to find.

They are window stores that retain duplicates, with the same rows and the same changelog. But a row is never changed,
and only looked for while it is young: so rows that can still be found are kept in memory, by key (``recent_rows.py``),
as far as the memory budget allows, and rows that expire before a commit are never written to disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.contracts import ChangelogRow, CommitBatch, StateStore, StateStoreContext
from penstock.state.queries import Query, QueryRow
from penstock.state.rows.typed_keys import TypedKeys
from penstock.state.windowed.keys import LARGEST_SEQUENCE, changelog_key, start_and_sequence
from penstock.state.windowed.recent_rows import NOTHING, RecentRows, Row
from penstock.state.windowed.segments import pack_segment
from penstock.state.windowed.window_store import TypedWindowStore, WindowStateStore, WindowStoreBuilder
from penstock.state.write_buffer.sizes import entry_bytes, strides

K = TypeVar("K")
V = TypeVar("V")

_UPDATE_BYTES = 350
"""Approximate bytes that the entry of a row takes in the write buffer, in addition to the value. All rows that wait for
a commit move there at its beginning."""
RESERVED_BYTES = 32 << 20
"""Bytes that each join window may hold in addition to the memory budget: records look up all of it, and what expires in
memory is never written to disk. Kafka Streams has three segments of RocksDB in its place. See docs/decisions/0012."""
_SAMPLE_WEIGHT = 1 / 16
"""Weight of the size of one row in the mean of all."""


@dataclass(frozen=True)
class JoinWindowStoreBuilder(WindowStoreBuilder[K, V]):
    """The window store of one side of a join; it retains duplicates. Like Kafka Streams' since 4.3, where it became a
    store with headers under an adapter, it has headers in its changelog."""

    logs_headers: ClassVar[bool] = True
    serdes_by: ClassVar[str] = "StreamJoined.with_(key_serde, value_serde, other_value_serde)"

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        assert self.value_serde is not None
        return JoinWindowStateStore(self, self.value_serde, context)


class JoinWindowStateStore(WindowStateStore):
    """The window store of one side of a join. The time of its rows is that of the records."""

    def __init__(
        self, builder: JoinWindowStoreBuilder[Any, Any], value_serde: Serde[Any], context: StateStoreContext
    ) -> None:
        super().__init__(builder, context)
        rows = self.rows
        self._log = context.log
        self._serialize = value_serde.serialize
        self._retention_ms = builder.retention_ms
        self._recent = RecentRows(builder.retention_ms)
        self._recent.forget(rows.stream_time + 1)
        self._expires_at = -1
        self._frozen = False
        self._row_bytes = 0.0
        self._stride = strides()
        self._until_sample = 1

    # ---- what joins do ----

    @override
    def put(self, key: bytes, value: Any, timestamp: int, window_start: int, headers: Headers | None = None) -> None:
        """Keep a record; one with a null value is only written to the changelog, as in Kafka Streams."""
        if not 0 <= window_start <= LARGEST_TIMESTAMP:
            raise self.not_a_start(window_start)
        rows, data = self.rows, None
        rows.sequence = sequence = (rows.sequence + 1) & LARGEST_SEQUENCE
        logged_key = key + start_and_sequence(window_start, sequence)
        if value is not None:
            try:
                data = self._serialize(value)
            except Exception as error:
                row_key = rows.row_key(logged_key, b"", window_start)
                raise rows.buffer.refused(row_key, value, error) from error
        if self._log is not None:
            self._log(logged_key, data, timestamp)
        if data is None:
            return
        if window_start > rows.expiry_time:
            rows.expiry_time = window_start
            if window_start > rows.stream_time:
                rows.stream_time = window_start
            if window_start >= self._expires_at:
                self._expire(window_start)
        elif window_start <= rows.expiry_time - self._retention_ms:
            if not rows.is_live(window_start):
                rows.drop(key, window_start)
            return  # no look-up would find it
        if not self._recent.add(key, window_start, value, logged_key):
            self._buffer([(window_start, value, logged_key)])
        self._until_sample -= 1
        if not self._until_sample:
            self._measure(logged_key, value, len(data))

    @property
    def stream_time(self) -> int:
        """The largest time of a record that was put, in this run or before; −1 if there was none."""
        return self.rows.stream_time

    def find(self, key: bytes, time_from: int, time_to: int) -> Sequence[Row]:
        """The rows of ``key`` between the times, both included and not negative, as (time, value, …): by time, those of
        one time in their order of arrival. Use them before the next put."""
        rows = self.rows
        first_visible = rows.expiry_time - self._retention_ms + 1
        if time_from < first_visible:
            time_from = first_visible
        if time_to > rows.stream_time:
            time_to = rows.stream_time
        if time_from > time_to:
            return NOTHING
        found = self._recent.of_key(key, time_from, time_to)
        if found is not None:
            return found
        self.buffer_all()
        time = self._schema.time
        entries = rows.of_key(key, time_from, time_to)
        return [(time(row_key), entry[0], changelog_key(row_key)) for row_key, entry in entries]

    def _expire(self, expiry_time: int) -> None:
        """Forget the rows that have expired at ``expiry_time``, also those that wait for a commit: no reader will see
        them, whatever happens."""
        recent, first_visible = self._recent, self.rows.segments.first_visible(expiry_time)
        recent.expire(first_visible)
        self._expires_at = (first_visible // recent.pane_ms + 1) * recent.pane_ms + self._retention_ms - 1

    def _measure(self, key: bytes, value: Any, data_bytes: int) -> None:
        self._until_sample = self._stride()
        weight = 1.0 if not self._row_bytes else _SAMPLE_WEIGHT
        self._row_bytes += (entry_bytes(key, value, data_bytes) - self._row_bytes) * weight

    def buffer_all(self) -> None:
        """Move what waits for a commit to the write buffer, where commits and reads from disk find it."""
        self._buffer(self._recent.take_updates())

    def _buffer(self, updates: Iterable[Row]) -> None:
        dirty, number, segments = self.buffer.dirty, self.buffer.next_update_number, self.rows.segments
        front, first, last = b"", 0, -1  # nearly all rows lie in the segment of the one before
        for time, value, logged_key in updates:
            if not first <= time <= last:
                segment = segments.of(time)
                front = pack_segment(segment)
                first, last = segments.first_timestamp(segment), segments.last_timestamp(segment)
            dirty[front + logged_key] = (value, time, None, number())

    # ---- what the engine does ----

    @property
    @override
    def has_changes(self) -> bool:
        return super().has_changes or self.rows.has_moved

    @override
    def freeze(self) -> None:
        self.buffer_all()
        super().freeze()
        self._frozen = True

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        if not self._frozen:
            self.freeze()
        self._frozen = False
        return super().flush(batch)

    @override
    def batch_written(self) -> None:
        super().batch_written()
        self.buffer.forget_objects()  # what can be found is in memory already

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        # Records with a null value are only in the changelog, and did not advance the time of the store.
        kept = [number for number, value in enumerate(values) if value is not None]
        columns = [keys[number] for number in kept], [values[number] for number in kept]
        super().restore(batch, *columns, [timestamps[number] for number in kept])
        if keys and values[-1] is None:
            self.rows.pass_over(batch, keys[-1])
        self._recent.forget(self.rows.stream_time + 1)

    @override
    def forget_objects(self) -> None:
        super().forget_objects()
        self._recent.forget(self.rows.stream_time + 1)

    @override
    def wiped(self) -> None:
        super().wiped()
        self._recent.forget(self.rows.stream_time + 1)

    @override
    def answer(self, query: Query, after: bytes | None, limit: int, committed: bool) -> Iterator[QueryRow]:
        self.buffer_all()
        return super().answer(query, after, limit, committed)

    @override
    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        rows = self.changelog_rows_of(self.committed_rows(), lambda row_key, _: self._schema.time(row_key))
        assert rows is not None
        return self._youngest_last(rows)

    def _youngest_last(self, rows: Iterator[ChangelogRow]) -> Iterator[ChangelogRow]:
        """Yields ``rows``, at the end the one that was put last: a restored store goes on from its number."""
        youngest: ChangelogRow | None = None
        least = LARGEST_SEQUENCE
        for row in rows:
            age = (self.rows.sequence - self._schema.sequence(row[0])) & LARGEST_SEQUENCE
            if youngest is not None and age >= least:
                yield row
                continue
            if youngest is not None:
                yield youngest
            youngest, least = row, age
        if youngest is not None:
            yield youngest

    @override
    def view(self) -> TypedWindowStore:
        return _JoinWindowView(self, self.typed_keys(), self.context.now)

    # ---- memory ----

    @override
    def resident_bytes(self) -> float:
        return super().resident_bytes() + max(0.0, self._recent.count() * self._row_bytes - RESERVED_BYTES)

    @override
    def dirty_resident_bytes(self) -> float:
        updates = self._recent.count_updates() * _UPDATE_BYTES
        return super().dirty_resident_bytes() + max(0.0, updates - RESERVED_BYTES)

    @override
    def dirty_cache_bytes(self) -> int:
        return 0  # a store without a cache in Kafka Streams, too: what waits counts by what it takes in the process

    @override
    def drop_unused(self) -> bool:
        dropped = super().drop_unused()
        if self._recent.count() * self._row_bytes <= RESERVED_BYTES:
            return dropped
        self.buffer_all()
        self._recent.drop_oldest()
        return True


class _JoinWindowView(TypedWindowStore):
    """The view of a processor: before a read it moves waiting rows to the write buffer, where reads find them."""

    def __init__(self, store: JoinWindowStateStore, keys: TypedKeys, now: Callable[[], int]) -> None:
        super().__init__(store, keys, now)
        self._buffer_all = store.buffer_all

    @override
    def fetch(self, *given: Any, **named: Any) -> Any:
        self._buffer_all()
        return super().fetch(*given, **named)

    @override
    def backward_fetch(self, *given: Any, **named: Any) -> Any:
        self._buffer_all()
        return super().backward_fetch(*given, **named)

    @override
    def _of_keys(self, *arguments: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        self._buffer_all()
        return super()._of_keys(*arguments)
