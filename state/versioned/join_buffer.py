"""The store in which records of a stream wait for the table that they are joined with, in the order of time.

Keys and values of its changelog are Kafka Streams' (``RocksDBTimeOrderedKeyValueBuffer``), and so are its rows, but for
eight bytes at the end of each value.
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
from penstock.common.records import Headers, RecordMetadata
from penstock.common.serdes import Serdes
from penstock.state.buffered_store import BufferedStateStore
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import CommitBatch, StateStore, StateStoreContext
from penstock.state.row_formats import NO_TIMESTAMP, VALUE
from penstock.state.versioned.buffered_records import read_record, write_record
from penstock.state.write_buffer import WriteBuffer

_TIME_FIRST = Struct(">xq")
_SEQUENCE = Struct(">i")
_SHORTEST_KEY = _TIME_FIRST.size + _SEQUENCE.size
_LARGEST_SEQUENCE = (1 << 31) - 1
_BUFFER_TIME = bytes(8)
"""What the changelog has behind each value: the time at which a buffer of another kind would let go of it."""

_PROGRESS_KEY = b"\xffprogress"
"""Behind all rows, which begin with a zero byte."""
_BEHIND_ROWS = b"\x01"
_PROGRESS = Struct(">qi")
_NOTHING_OBSERVED = -1

# So many keys of rows that leave next are read at once.
_READ_AHEAD = 1000


@dataclass(frozen=True)
class JoinBufferBuilder(StoreBuilder[Any, Any]):
    """The buffer of a join with a grace period of ``grace_ms``."""

    kind: ClassVar[str] = "buffer of a stream-table join"

    grace_ms: int = 0

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return JoinBuffer(self, context)

    @override
    def with_caching_enabled(self) -> Self:
        return self


class Waited(NamedTuple):
    """A record that has waited: key and value are serialised."""

    key: bytes
    value: bytes
    timestamp: int
    metadata: RecordMetadata | None
    headers: Headers | None


class JoinBuffer(BufferedStateStore):
    """The records that wait. Time is the largest timestamp that was ever put."""

    def __init__(self, builder: JoinBufferBuilder, context: StateStoreContext) -> None:
        buffer = WriteBuffer(builder.name, Serdes.bytes(), VALUE, replace(context, log=None, caching=False))
        super().__init__(builder, buffer, context)
        self._log = context.log
        self._grace_ms = builder.grace_ms
        self._frozen: bytes | None = None
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
    def view(self) -> None:
        """Nothing: no processor of a user's can be connected to it."""

    # ---- records ----

    def is_too_late(self, timestamp: int) -> bool:
        """Whether a record of ``timestamp`` is later than the grace period, and cannot be put."""
        return timestamp < self._stream_time - self._grace_ms

    def put(
        self, key: bytes, value: bytes, timestamp: int, metadata: RecordMetadata | None, headers: Headers | None
    ) -> None:
        """A record waits from now on."""
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        self._sequence = (self._sequence + 1) & _LARGEST_SEQUENCE
        row_key = _TIME_FIRST.pack(timestamp) + key + _SEQUENCE.pack(self._sequence)
        row = write_record(value, timestamp, metadata, headers)
        if self._log is not None:
            self._log(row_key, row + _BUFFER_TIME, NO_TIMESTAMP)
        self.buffer.put(row_key, row, NO_TIMESTAMP, None)
        if self._horizon is None or row_key <= self._horizon:
            heappush(self._next, row_key)
            if len(self._next) > 2 * _READ_AHEAD:
                self._keep_the_next()

    def _keep_the_next(self) -> None:
        self._next.sort()  # which makes a heap, too
        del self._next[_READ_AHEAD:]
        self._horizon = self._next[-1]

    @property
    def has_due(self) -> bool:
        """Whether there may be records that have waited long enough."""
        if not self._next:
            self._read_ahead()
        # The rows that go on waiting stand behind these bytes.
        return bool(self._next) and self._next[0] < self._first_to_stay

    @property
    def _first_to_stay(self) -> bytes:
        return _TIME_FIRST.pack(max(self._stream_time - self._grace_ms + 1, 0))

    def _read_ahead(self) -> None:
        if self._horizon is None:
            return
        rows = self.buffer.scan(self._horizon + b"\0", _BEHIND_ROWS, limit=_READ_AHEAD)
        self._next = [key for key, _ in islice(rows, _READ_AHEAD)]
        self._horizon = self._next[-1] if len(self._next) == _READ_AHEAD else None

    def due(self) -> Iterator[Waited]:
        """The records that have waited long enough, by time, then by key, then as they came. Each is gone when the next
        one is asked for."""
        while self.has_due:
            row_key = heappop(self._next)
            entry = self.buffer.get(row_key)
            if entry is None:
                raise StateStoreError(f"store {self.name}: the row of {row_key!r} has gone")
            (timestamp,) = _TIME_FIRST.unpack_from(row_key)
            value, metadata, headers = read_record(entry[0])
            yield Waited(row_key[_TIME_FIRST.size : -_SEQUENCE.size], value, timestamp, metadata, headers)
            self.buffer.put(row_key, None, NO_TIMESTAMP, None)
            if self._log is not None:
                self._log(row_key, None, NO_TIMESTAMP)

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
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self.forget_objects()
        rows: dict[bytes, bytes | None] = {}
        for key, value in zip(keys, values, strict=True):
            if len(key) < _SHORTEST_KEY or key[0] or (value is not None and len(value) < len(_BUFFER_TIME)):
                raise self._foreign(key)
            self._stream_time = max(self._stream_time, _TIME_FIRST.unpack_from(key)[0])
            if value is not None:
                (self._sequence,) = _SEQUENCE.unpack_from(key, len(key) - _SEQUENCE.size)
            rows[key] = None if value is None else value[: -len(_BUFFER_TIME)]
        for _ in batch.put_all(self.name, rows):
            pass
        self._note(_PROGRESS.pack(self._stream_time, self._sequence), batch)

    def _foreign(self, key: bytes) -> StateStoreError:
        return StateStoreError(
            f"store {self.name}: its changelog has a record with the key {key!r}, which no buffer of a join wrote: "
            "perhaps the store was of another kind before. Give the join another name, or delete topic and state"
        )

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        row = self.buffer.committed.get(key)
        return None if row is None else row + _BUFFER_TIME, NO_TIMESTAMP

    @override
    def forget_objects(self) -> None:
        self.buffer.forget_objects()
        self._forget_order()

    @override
    def wiped(self) -> None:
        self.buffer.forget_objects()
        self._read_progress()
