"""The store in which records of a stream wait for the table that they are joined with, in the order of time.

Its rows are what its changelog has: keys and values of Kafka Streams (``RocksDBTimeOrderedKeyValueBuffer``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from struct import Struct
from typing import Any, ClassVar, NamedTuple, Self

from typing_extensions import override

from penstock.common.errors import StateStoreError
from penstock.common.ids import TopicPartition
from penstock.common.records import SENT_NOW, Headers
from penstock.common.serdes import Serdes
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.buffers.buffered_change import BufferedChangeCodec, without_source
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import (
    CommitBatch,
    CommittedStore,
    StateStore,
    StateStoreContext,
    unexpected_changelog_key,
)
from penstock.state.rows.row_formats import NO_TIMESTAMP, VALUE
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.write_buffer import WriteBuffer

_TIME_FIRST = Struct(">xq")
_SEQUENCE = Struct(">i")
_SHORTEST_KEY = _TIME_FIRST.size + _SEQUENCE.size
_LARGEST_SEQUENCE = (1 << 31) - 1
_PROGRESS_KEY = b"\xffprogress"
"""A key after all rows, which begin with a zero byte."""
_AFTER_ROWS = b"\x01"
_PROGRESS = Struct(">qi")
_NOTHING_OBSERVED = -1
_NEVER_THERE = 1
"""The timestamp of a deletion by which a backfill writes over the row of an unfinished one. All others have the time at
which they were sent. Not 0, which librdkafka takes for now."""

# Number of keys that are read at once, of the rows that leave next.
_READ_AHEAD = 1000


@dataclass(frozen=True)
class JoinBufferBuilder(StoreBuilder[Any, Any]):
    """The buffer of a join with a grace period of ``grace_ms``."""

    kind: ClassVar[str] = "buffer of a stream-table join"

    grace_ms: int = 0

    @override
    def compared_rows(
        self, committed: CommittedStore, from_key: bytes | None = None, to_key: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        # A repartition topic may number its records differently.
        for key, row in committed.scan(from_key, min(_AFTER_ROWS, to_key or _AFTER_ROWS)):
            yield key, without_source(row)

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return JoinBuffer(self, context)

    @override
    def with_caching_enabled(self) -> Self:
        return self


class Waited(NamedTuple):
    """A record that has waited. Its key is serialised; ``source`` and ``offset`` are its own, None and −1 if they are
    not known."""

    key: bytes
    value: Any
    timestamp: int
    headers: Headers | None
    source: TopicPartition | None
    offset: int


class JoinBuffer(BufferedStateStore):
    """The records that wait. Time is the largest timestamp that was ever put."""

    restores_blindly = True

    def __init__(self, builder: JoinBufferBuilder, context: StateStoreContext) -> None:
        buffer = WriteBuffer(builder.name, Serdes.bytes(), VALUE, replace(context, log=None, caching=False))
        super().__init__(builder, buffer, context)
        assert builder.value_serde is not None
        self._codec = BufferedChangeCodec(builder.name, builder.value_serde)
        self._log = context.log
        self._grace_ms = builder.grace_ms
        self._frozen: bytes | None = None
        self._continues_from = LARGEST_TIMESTAMP
        self._read_progress()

    def _read_progress(self) -> None:
        self._noted = self.buffer.committed.get(_PROGRESS_KEY) or _PROGRESS.pack(_NOTHING_OBSERVED, 0)
        self._stream_time: int
        self._sequence: int
        self._stream_time, self._sequence = _PROGRESS.unpack(self._noted)
        self._forget_order()

    def _forget_order(self) -> None:
        # ``_next`` is a heap of the keys of all rows up to ``_horizon``; None: of all rows.
        self._next: list[bytes] = []
        self._horizon: bytes | None = b""

    @override
    def view(self) -> JoinBuffer:
        """Returns the buffer itself. It goes to a transformer through which the join looks into its table, which does
        not use it."""
        return self

    # ---- records ----

    def is_too_late(self, timestamp: int) -> bool:
        """Returns True if a record of ``timestamp`` is later than the grace period allows, and cannot be put."""
        return timestamp < self._stream_time - self._grace_ms

    def put(
        self,
        key: bytes,
        value: Any,
        timestamp: int,
        headers: Headers | None,
        source: TopicPartition | None,
        offset: int,
    ) -> None:
        """Add a record, which waits from now on. Raises whatever the value's serde raises."""
        row = self._codec.encode((0, None, None, value, timestamp, headers, source, offset, None))
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        self._sequence = (self._sequence + 1) & _LARGEST_SEQUENCE
        row_key = _TIME_FIRST.pack(timestamp) + key + _SEQUENCE.pack(self._sequence)
        if self._log is not None:
            self._log(row_key, row, SENT_NOW)
        self.buffer.put(row_key, row, NO_TIMESTAMP, None)
        if self._horizon is None or row_key <= self._horizon:
            heappush(self._next, row_key)
            if len(self._next) > 2 * _READ_AHEAD:
                self._keep_next()

    def _keep_next(self) -> None:
        self._next.sort()  # which makes a heap, too
        del self._next[_READ_AHEAD:]
        self._horizon = self._next[-1]

    @property
    def stream_time(self) -> int:
        """The largest timestamp that was put or observed; −1 if there is none yet."""
        return self._stream_time

    def observe(self, time: int) -> None:
        """Advance the stream time to ``time``, unless it is further already."""
        self._stream_time = max(self._stream_time, time)

    @property
    def waits(self) -> bool:
        """True if there are records that wait."""
        if not self._next:
            self._read_ahead()
        return bool(self._next)

    @property
    def has_due(self) -> bool:
        """True if there may be records that have waited long enough."""
        if not self._next:
            self._read_ahead()
        # The rows that continue to wait come after these bytes.
        return bool(self._next) and self._next[0] < self._first_kept

    @property
    def _first_kept(self) -> bytes:
        return _TIME_FIRST.pack(max(self._stream_time - self._grace_ms + 1, 0))

    def _read_ahead(self) -> None:
        if self._horizon is None:
            return
        rows = self.buffer.scan(self._horizon + b"\0", _AFTER_ROWS, limit=_READ_AHEAD)
        self._next = [key for key, _ in islice(rows, _READ_AHEAD)]
        self._horizon = self._next[-1] if len(self._next) == _READ_AHEAD else None

    def due(self) -> Iterator[Waited]:
        """Yields the records that have waited long enough, by time, then by key, then in their order of arrival. Each
        is deleted when the next one is requested."""
        while self.has_due:
            row_key = heappop(self._next)
            entry = self.buffer.get(row_key)
            if entry is None:
                raise StateStoreError(f"store {self.name}: the row of {row_key!r} has gone")
            _, _, _, value, timestamp, headers, source, offset, _ = self._codec.decode(entry[0])
            key = row_key[_TIME_FIRST.size : -_SEQUENCE.size]
            yield Waited(key, value, timestamp, headers, source, offset)
            self.buffer.put(row_key, None, NO_TIMESTAMP, None)
            if self._log is not None:
                self._log(row_key, None, SENT_NOW)

    # ---- commit and restore ----

    @override
    def freeze(self) -> None:
        self.buffer.freeze()
        self._frozen = _PROGRESS.pack(self._stream_time, self._sequence)

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        if self._frozen is None:
            self.freeze()
        progress, self._frozen = self._frozen, None
        assert progress is not None
        yield from self.buffer.flush(batch)
        self._note(progress, batch)

    def _note(self, progress: bytes, batch: CommitBatch) -> None:
        if progress != self._noted:
            batch.put(self.name, _PROGRESS_KEY, progress)
        self._noted = progress

    @override
    def continue_from(self, stream_time: int) -> None:
        self._continues_from = stream_time

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self.forget_objects()
        time, rows = self._stream_time, dict[bytes, bytes | None]()
        # A record that left the buffer after the commit leaves it again: its result may have been lost.
        stays = LARGEST_TIMESTAMP if self._continues_from < 0 else self._continues_from - self._grace_ms
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if len(key) < _SHORTEST_KEY or key[0]:
                raise self._foreign(key)
            own_time = _TIME_FIRST.unpack_from(key)[0]
            time = max(time, own_time)
            if value is not None:
                # A backfill writes rows in the order of time, not of their numbers. The next record needs a larger
                # number than all of them.
                self._sequence = max(self._sequence, *_SEQUENCE.unpack_from(key, len(key) - _SEQUENCE.size))
            elif own_time > stays and timestamp != _NEVER_THERE:
                continue
            rows[key] = value
        for _ in batch.put_all(self.name, rows):
            pass
        # If the changelog is ahead of the commit, its records come again, and must not be too late to wait.
        self._stream_time = max(self._stream_time, min(time, self._continues_from))
        self._note(_PROGRESS.pack(self._stream_time, self._sequence), batch)

    def _foreign(self, key: bytes) -> StateStoreError:
        return unexpected_changelog_key(self.name, key, "no join buffer wrote", "join")

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        row = self.buffer.committed.get(key)
        return row, _NEVER_THERE if row is None else SENT_NOW

    @override
    def forget_objects(self) -> None:
        self.buffer.forget_objects()
        self._forget_order()

    @override
    def wiped(self) -> None:
        self.buffer.forget_objects()
        self._read_progress()
