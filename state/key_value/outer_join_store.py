"""The store in which the records of a left or outer join of two streams wait for a match.

Rows are Kafka Streams' own (``TimestampedKeyAndJoinSide``, ``LeftOrRightValue`` in its list serde)::

    key     8 bytes of timestamp, 1 byte of side (1: left, 0: right), key
    value   1 byte of 1, 4 bytes of count, then per record 4 bytes of length, 1 byte of side, value

so they sort by time, then by side (right before left), then by key. Records of one key, time and side share a row. The
keys of all rows are in memory, in order; values are kept as in any store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, ClassVar, Self, TypeVar

from typing_extensions import override

from penstock.common.serdes import Serde, SerdePart, Serdes
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import ChangelogRow, CommitBatch, StateStore, StateStoreContext
from penstock.state.key_value.store import KeyValueStateStore
from penstock.state.rows.row_formats import VALUE
from penstock.state.write_buffer.ordered_keys import OrderedKeys

K = TypeVar("K")

_KEY = Struct(">q?")
_LIST = Struct(">?i")
_LENGTH = Struct(">i")
_TIME = Struct(">q")

_KEY_BYTES = 150
"""Approximate bytes that the key of a row that waits takes in the process."""
NO_TIME = 1 << 62
"""The smallest time that waits if no record does."""


@dataclass(frozen=True)
class OuterJoinStoreBuilder(StoreBuilder[K, bytes]):
    """The store that both sides of a left or outer join share. Mirrors ``ListValueStoreBuilder`` as joins use it.

    ``left_serde`` and ``right_serde`` are those of the values of either side.
    """

    kind: ClassVar[str] = "outer join"
    serdes_by: ClassVar[str] = "StreamJoined.with_(key_serde, value_serde, other_value_serde)"

    left_serde: Serde[Any] | None = None
    right_serde: Serde[Any] | None = None

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return OuterJoinStateStore(self, context)

    @override
    def with_known_serdes(self, known: Callable[[Serde[Any] | None, SerdePart], Serde[Any]]) -> Self:
        return replace(
            self,
            key_serde=known(self.key_serde, "key"),
            value_serde=Serdes.bytes(),
            left_serde=known(self.left_serde, "value"),
            right_serde=known(self.right_serde, "value"),
        )


class OuterJoinStateStore(KeyValueStateStore):
    """The records that wait, and the times that both sides of their join share.

    ``stream_time`` is the largest timestamp that either side was given; ``smallest_time`` what the join takes for the
    smallest timestamp that waits. Neither is stored: :meth:`begin` works them out, the first from the functions in
    ``observed``, which return how far the stores of both sides have come in time.
    """

    def __init__(self, builder: OuterJoinStoreBuilder[Any], context: StateStoreContext) -> None:
        super().__init__(builder, VALUE, context)
        assert builder.left_serde is not None
        assert builder.right_serde is not None
        self.stream_time = -1
        self.smallest_time = NO_TIME
        self.has_begun = False
        self.observed: list[Callable[[], int]] = []
        self._continues_from = LARGEST_TIMESTAMP
        self._serialize = {True: builder.left_serde.serialize, False: builder.right_serde.serialize}
        self._deserialize = {True: builder.left_serde.deserialize, False: builder.right_serde.deserialize}
        self._waiting: dict[bool, OrderedKeys] = {True: OrderedKeys(), False: OrderedKeys()}

    # ---- what joins do ----

    def begin(self) -> None:
        """Find the records that wait. Call it before the first record."""
        left, right = OrderedKeys(), OrderedKeys()
        self._waiting = {True: left, False: right}
        for row_key, _ in self.buffer.scan(None, None):
            time, is_left = _KEY.unpack_from(row_key)
            (left if is_left else right).add((row_key,))
            self.smallest_time = min(self.smallest_time, time)
        self.stream_time = max([self.stream_time, *(time() for time in self.observed)])
        self.has_begun = True

    def add(self, key: bytes, left: bool, value: Any, timestamp: int) -> None:
        """Let a record of that side wait, after those of the same key and time."""
        row_key = _KEY.pack(timestamp, left) + key
        data = self._serialize[left](value)
        item = _LENGTH.pack(len(data) + 1) + (b"\x01" if left else b"\x00") + data
        waiting = self._waiting[left]
        if row_key in waiting:
            row = self._row(row_key)
            row = _LIST.pack(True, _count(row) + 1) + row[_LIST.size :] + item
        else:
            waiting.add((row_key,))
            row = _LIST.pack(True, 1) + item
        self.buffer.put(row_key, row, timestamp, None)
        if timestamp < self.smallest_time:
            self.smallest_time = timestamp

    @property
    def waits(self) -> bool:
        """True if any record waits. Valid once :meth:`begin` was called."""
        return any(map(len, self._waiting.values()))

    def matched(self, key: bytes, left: bool, time: int, timestamp: int) -> None:
        """Delete the waiting records of ``key`` at ``time`` on that side, if any: a match came at ``timestamp``."""
        waiting = self._waiting[left]
        if waiting and (row_key := _KEY.pack(time, left) + key) in waiting:
            waiting.discard((row_key,))
            self.buffer.put(row_key, None, timestamp, None)

    def take_closed(
        self, left_before: int, right_before: int, timestamp: int
    ) -> Iterator[tuple[bytes, bool, int, Any]]:
        """Take out what waits since before these times. Yields (key, True if left, time, value), in the order of rows.

        Each row is deleted, at ``timestamp``, when the next one is requested: exhaust the iterator.
        """
        closed = [
            *self._waiting[True].take_out(b"", _TIME.pack(max(left_before, 0))),
            *self._waiting[False].take_out(b"", _TIME.pack(max(right_before, 0))),
        ]
        closed.sort()
        self.smallest_time = self._last_looked_at(closed)
        for row_key in closed:
            time, left = _KEY.unpack_from(row_key)
            deserialize, key = self._deserialize[left], row_key[_KEY.size :]
            for data in _values(self._row(row_key)):
                yield key, left, time, deserialize(data)
            self.buffer.put(row_key, None, timestamp, None)

    def _last_looked_at(self, closed: list[bytes]) -> int:
        """Returns the time of the row at which Kafka Streams ends its scan of the store.

        If both sides have open rows, that is the row after the later one of their first open rows; else it is the last
        row. Kafka Streams takes this time for the smallest one that waits, even if an open row is older. It decides
        when records without a match are emitted, and in which order.
        """
        first_open = [key for waiting in self._waiting.values() for key in waiting.between(None, None, False, 1)]
        if len(first_open) == len(self._waiting):
            later = max(first_open)
            if _count(self._row(later)) > 1:
                return _time(later)
            near = [key for waiting in self._waiting.values() for key in waiting.between(later, None, False, 2)]
            return _time(min((key for key in near if key != later), default=later))
        last = [key for waiting in self._waiting.values() for key in waiting.between(None, None, True, 1)]
        return _time(max(closed[-1:] + last)) if closed or last else NO_TIME

    def _row(self, row_key: bytes) -> bytes:
        entry = self.buffer.get(row_key)
        assert entry is not None
        row: bytes = entry[0]
        return row

    # ---- what the engine does ----

    @override
    def resident_bytes(self) -> float:
        return super().resident_bytes() + sum(map(len, self._waiting.values())) * _KEY_BYTES

    @override
    def changelog_rows(self) -> Iterator[ChangelogRow] | None:
        return self.changelog_rows_of(self.buffer.committed.scan(None, None), lambda row_key, _: _time(row_key))

    @override
    def continue_from(self, stream_time: int) -> None:
        self._continues_from = LARGEST_TIMESTAMP if stream_time < 0 else stream_time

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        # What came out, or was matched, after the commit waits again: its records come again, and the result may
        # have been lost.
        kept = [at for at, value in enumerate(values) if value is not None or timestamps[at] <= self._continues_from]
        columns = [keys[at] for at in kept], [values[at] for at in kept], [timestamps[at] for at in kept]
        super().restore(batch, *columns)
        self.has_begun = False

    @override
    def wiped(self) -> None:
        super().wiped()
        self.has_begun = False


def _time(row_key: bytes) -> int:
    time: int = _TIME.unpack_from(row_key)[0]
    return time


def _count(row: bytes) -> int:
    count: int = _LIST.unpack_from(row)[1]
    return count


def _values(row: bytes) -> Iterator[bytes]:
    """The values in a row, without their sides."""
    index = _LIST.size
    for _ in range(_count(row)):
        (length,) = _LENGTH.unpack_from(row, index)
        index += _LENGTH.size
        yield row[index + 1 : index + length]
        index += length
