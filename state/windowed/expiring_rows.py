"""Rows of windowed keys that expire: what window stores and session stores have in common.

A row's key begins with the number of its segment (``segments.py``), so rows of one time lie together. What is not
committed yet is over them in a :class:`~penstock.state.write_buffer.write_buffer.WriteBuffer`, under the same keys.

One more row notes the store's stream time. Without it, a restarted task would show expired rows again, and accept rows
that are too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from struct import Struct
from typing import Any, NamedTuple

from penstock.common.log import logger
from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP, Window, Windowed
from penstock.state.contracts import CommitBatch, StateStoreContext, unexpected_changelog_key
from penstock.state.rows.row_formats import EntryRow, RowFormat
from penstock.state.windowed.keys import KeySchema, last_row_key
from penstock.state.windowed.segments import FEW, NOTHING_OBSERVED, SEGMENT_BYTES, Segments, pack_segment, with_rows
from penstock.state.windowed.time_order import TimeOrder
from penstock.state.write_buffer.write_buffer import WriteBuffer

PROGRESS_KEY = b"\xffprogress"
"""A key after all rows: the number of a segment does not begin with this byte."""
_WINDOWS_KEPT = 1000  # at hand
_READ_AT_ONCE = 1000
PROGRESS = Struct(">qi")  # observed stream time, last sequence number


class _Progress(NamedTuple):
    """The progress of a store. ``holds_expired``: rows were put since the last commit that had expired by then."""

    stream_time: int
    sequence: int
    holds_expired: bool
    expiry_time: int


class ExpiringRows:
    """The rows of one store. ``stream_time`` is the largest time that the store was ever given; ``sequence`` the last
    sequence number, which only stores that retain duplicates advance. ``time_order`` is None in a store whose rows are
    not read by time. From ``expiry_time`` the retention is counted: the stream time, except if the changelog is ahead
    of the commit from which a task continues (:meth:`continue_from`). Then the records that advanced the store come
    again, and must find what had not expired when they came first.
    """

    def __init__(
        self,
        name: str,
        value_serde: Serde[Any] | None,
        row_format: RowFormat,
        schema: KeySchema,
        segments: Segments,
        by_time: bool,
        context: StateStoreContext,
        buffer_kind: type[WriteBuffer] = WriteBuffer,
    ) -> None:
        self.name = name
        self.schema = schema
        self.segments = segments
        self.row_format = row_format
        self.buffer = buffer_kind(name, value_serde, row_format, context, SEGMENT_BYTES)
        self.time_order = TimeOrder(name, schema.suffix_bytes, context) if by_time else None
        self._drop_record = context.drop_record
        self.stream_time: int
        self.committed_time: int
        """The stream time as of the last finished commit: no row on disk is of a later time."""
        self.sequence: int
        self._continues_from = LARGEST_TIMESTAMP
        self._holds_expired = False
        self._frozen: _Progress | None = None
        self._read_progress()

    # ---- time ----

    def _read_progress(self) -> None:
        self._noted = self.buffer.committed.get(PROGRESS_KEY) or PROGRESS.pack(NOTHING_OBSERVED, 0)
        self.stream_time, self.sequence = self._noted_progress = PROGRESS.unpack(self._noted)
        self.committed_time = self.stream_time
        self.expiry_time = self._noted_expiry = min(self.stream_time, self._continues_from)

    def continue_from(self, time: int) -> None:
        """Called before a restore: the task continues from a commit at which its records had come to ``time``. Called
        again with each later commit if the changelog is followed from one to the next. If ``time`` is not known (−1),
        nothing expires until records have come further."""
        self._continues_from = time
        self.expiry_time = min(self.stream_time, time)
        # What has expired between two commits is still to be deleted.
        self._noted_expiry = min(self._noted_expiry, self.expiry_time)

    @property
    def has_moved(self) -> bool:
        """True if the store has come further than the last commit has noted, or the one under way will note."""
        moved = (self.stream_time, self.sequence)
        return moved != (self._noted_progress if self._frozen is None else self._frozen[:2])

    def is_visible(self, time: int) -> bool:
        """Returns True if there can be rows of ``time`` that have not expired."""
        return self.segments.first_visible(self.expiry_time) <= time <= self.stream_time

    def shows_a_table(self, time: int) -> bool:
        """Like :meth:`is_visible`, for look-ups in a table: Kafka Streams' cache, if any, still has expired rows."""
        return self.buffer.caching or self.is_visible(time)

    @property
    def flushed_time(self) -> int:
        """The :attr:`expiry_time` of what is flushed or committed."""
        return self._noted_expiry

    def observe(self, time: int) -> None:
        """Advance the store to ``time``, of which it is given something. :meth:`put` does this itself."""
        if time > self.expiry_time:
            self.expiry_time = time
            if time > self.stream_time:
                self.stream_time = time

    # ---- rows ----

    def put(
        self, key: bytes, suffix: bytes, time: int, value: Any, timestamp: int, headers: Headers | None, counted: bool
    ) -> None:
        """Set the row of ``key`` at ``time``, or delete it with None.

        A row so late that its segment has expired is never shown, and is deleted by the commit. As in Kafka Streams,
        changelog and listeners get it like any other. ``counted``: log this, and count a dropped record.
        """
        if time > self.expiry_time:
            self.observe(time)
        elif not self.is_live(time):
            self._holds_expired = True
            if counted:
                self.drop(key, time)
        row_key = self.row_key(key, suffix, time)
        if self.time_order is not None and (self.buffer.get(row_key) is None) is not (value is None):
            (self.time_order.discard if value is None else self.time_order.add)(key, suffix)
        self.buffer.put(row_key, value, timestamp, headers)

    def is_live(self, time: int) -> bool:
        """Returns True if the segment of ``time`` takes rows."""
        return self.segments.of(time) >= self.segments.first_live(self.expiry_time)

    def drop(self, key: bytes, time: int) -> None:
        """Log that a record came so late that its segment has expired, and count it as dropped."""
        logger(__name__).warning(
            "Skipping record for expired segment.",
            store=self.name,
            key=key,
            timestamp=time,
            observed_stream_time=self.expiry_time,
            retention_ms=self.segments.retention_ms,
        )
        self._drop_record()

    def row_key(self, key: bytes, suffix: bytes, time: int) -> bytes:
        """Returns the key of the row of ``key`` at ``time``."""
        return self.front(time) + key + suffix

    def front(self, time: int) -> bytes:
        """Returns the bytes before the key in the key of a row at ``time``."""
        return pack_segment(self.segments.of(time))

    def key(self, row_key: bytes) -> bytes:
        """The key in a row's key."""
        return row_key[SEGMENT_BYTES : -self.schema.suffix_bytes]

    def windowed_keys(self, to_key: Callable[[bytes], Any]) -> Callable[[bytes], Windowed[Any]]:
        """Returns a function that makes a windowed key of the key of a row; ``to_key`` makes the key in it of bytes."""
        suffix_bytes, window_of = self.schema.suffix_bytes, self.schema.window
        lately: dict[bytes, Window] = {}
        if not self.schema.windows_recur:
            return lambda row_key: Windowed(to_key(row_key[SEGMENT_BYTES:-suffix_bytes]), window_of(row_key))

        def windowed(row_key: bytes) -> Windowed[Any]:
            suffix = row_key[-suffix_bytes:]
            window = lately.get(suffix)
            if window is None:
                if len(lately) >= _WINDOWS_KEPT:
                    lately.clear()
                window = lately[suffix] = window_of(row_key)
            return Windowed(to_key(row_key[SEGMENT_BYTES:-suffix_bytes]), window)

        return windowed

    def of_key(
        self,
        key: bytes,
        time_from: int,
        time_to: int,
        reverse: bool = False,
        expired_too: bool = False,
    ) -> Iterator[EntryRow]:
        """The rows of ``key`` between the times, both included, by time. Only their segments are read.

        ``expired_too``: also expired rows, as long as they exist.
        """
        begin, end, segments = self.visible(time_from, time_to, expired_too=expired_too)
        scans: list[Iterator[EntryRow]] = []
        for segment in segments:
            front = pack_segment(segment) + key
            last = self.schema.last(min(end, self.segments.last_timestamp(segment)))
            scans.append(self.buffer.scan(front + self.schema.first(begin), front + last, reverse))
        # Between them lie rows of keys that begin with this one, too.
        length = SEGMENT_BYTES + len(key) + self.schema.suffix_bytes
        return (row for row in _in_order(scans, reverse) if len(row[0]) == length)

    def of_keys(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, reverse: bool = False
    ) -> Iterator[EntryRow]:
        """The rows of keys and times in these ranges, by segment, then as their keys in the changelog; None is open."""
        if key_from is not None and key_to is not None and key_from > key_to:
            logger(__name__).warning(
                "the range of a fetch is empty: from > to. Either the keys are in the wrong order, or their serialised "
                "bytes are: those of numbers are, across zero",
                store=self.name,
                key_from=key_from,
                key_to=key_to,
            )
            return iter(())
        return _in_order(self._scans(key_from, key_to, time_from, time_to, reverse), reverse)

    def by_time(self, time_from: int, time_to: int, as_they_lie: bool, expired: bool) -> Iterator[EntryRow]:
        """Yields the rows between the times, both included, by time and then by key, or ``as_they_lie``. The store must
        have a time order. ``expired``: expired rows are shown, too, as long as they exist. Rows may be many, and
        are not needed again: some are read at a time, and none is kept.
        """
        assert self.time_order is not None
        segments = self.segments
        if not expired:
            time_from = max(time_from, segments.first_visible(self.expiry_time))
        elif not self.buffer.caching:
            # As in Kafka Streams, where the put that advanced the time has deleted what is older.
            time_from = max(time_from, segments.first_timestamp(segments.first_live(self.expiry_time)))
        row_key, time, buffer = self.row_key, self.schema.time, self.buffer
        order = (row_key(key, suffix, time(suffix)) for key, suffix in self.time_order.between(time_from, time_to))
        found = iter(sorted(order)) if as_they_lie else order
        while some := list(islice(found, _READ_AT_ONCE)):
            buffer.prefetch(some)
            for each in some:
                entry = buffer.dirty.get(each) or buffer.load_to_update(each)
                if entry[0] is not None:
                    yield each, entry

    def found_until(self, time: int, expired: bool) -> int:
        """Returns the last stream time at which :meth:`by_time` finds rows of ``time``, with or without a commit
        before."""
        return self.segments.lives_until(time) if expired else self.segments.visible_until(time)

    def _scans(
        self, key_from: bytes | None, key_to: bytes | None, time_from: int, time_to: int, reverse: bool
    ) -> list[Iterator[EntryRow]]:
        """Returns one scan for each segment, oldest first. All are made now: they see the store as it is."""
        begin, end, segments = self.visible(time_from, time_to)
        smallest = key_from or b""
        scans: list[Iterator[EntryRow]] = []
        for segment in segments:
            if key_to is None:
                largest = pack_segment(segment + 1)  # where no row is
            else:
                last = self.schema.last(min(end, self.segments.last_timestamp(segment)))
                largest = pack_segment(segment) + last_row_key(key_to, last)
            rows = self.buffer.scan(pack_segment(segment) + smallest, largest, reverse)
            scans.append(self._within(rows, key_from, key_to, begin, end))
        return scans

    def _within(
        self, rows: Iterator[EntryRow], key_from: bytes | None, key_to: bytes | None, begin: int, end: int
    ) -> Iterator[EntryRow]:
        time = self.schema.time
        if key_from is None and key_to is None:
            return (row for row in rows if begin <= time(row[0]) <= end)
        smallest = key_from or b""
        return (
            row
            for row in rows
            if begin <= time(row[0]) <= end
            and smallest <= (key := self.key(row[0]))
            and (key_to is None or key <= key_to)
        )

    def visible(
        self, time_from: int, time_to: int, committed: bool = False, expired_too: bool = False
    ) -> tuple[int, int, Sequence[int]]:
        """Returns the part of these times that is shown, and its segments. ``committed``: as of the last commit."""
        stream_time = self.committed_time if committed else self.stream_time
        expiry_time = min(stream_time, self.expiry_time)
        begin = max(time_from, 0 if expired_too else self.segments.first_visible(expiry_time))
        end = min(time_to, stream_time)
        segments = range(self.segments.of(begin), self.segments.of(end) + 1 if begin <= end else 0)
        if len(segments) <= FEW:
            return begin, end, segments
        return begin, end, with_rows(segments, partial(self.buffer.scan, committed=committed, limit=1))

    # ---- commit and restore ----

    def freeze(self) -> None:
        """Set apart, for :meth:`flush`, all changes and the progress of the store until now."""
        self.buffer.freeze()
        if self.time_order is not None:
            self.time_order.buffer.freeze()
        self._frozen = self._take_progress()

    def flush(self, batch: CommitBatch) -> Iterator[None]:
        """Flush the buffers, and delete what had expired by then, including what was put since the commit before."""
        if self._frozen is None:
            self.freeze()
        frozen, self._frozen = self._frozen, None
        assert frozen is not None
        yield from self.buffer.flush(batch)
        if self.time_order is not None:
            yield from self.time_order.buffer.flush(batch)
        self._note(frozen, batch)

    def batch_written(self) -> None:
        """Called when the batch is on disk: committed rows have the changes now."""
        self.buffer.batch_written()
        if self.time_order is not None:
            self.time_order.buffer.batch_written()
        self.committed_time = self._noted_progress[0]

    def forget_objects(self) -> None:
        """Read committed rows from their bytes again."""
        self.buffer.forget_objects()
        if self.time_order is not None:
            self.time_order.buffer.forget_objects()

    def wiped(self) -> None:
        """Called when the rows were deleted, and with them the progress of the store."""
        self.forget_objects()
        self._read_progress()

    def restore(
        self,
        batch: CommitBatch,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Put rows for these records of the changelog, except those that have expired once all are observed."""
        self.forget_objects()
        times = [self._restored_time(key) for key in keys]
        self.stream_time = max(self.stream_time, *times, NOTHING_OBSERVED)
        self.expiry_time = min(self.stream_time, self._continues_from)
        if keys:
            self.sequence = self.schema.sequence(keys[-1])
        restored, rows = self.row_format.rows(values, timestamps, headers), dict[bytes, bytes | None]()
        first_live, segment_of = self.segments.first_live(self.expiry_time), self.segments.of
        for key, row, time in zip(keys, restored, times, strict=True):
            segment = segment_of(time)
            if segment >= first_live:
                rows[pack_segment(segment) + key] = row
                if self.time_order is not None:
                    rows[self.time_order.row_key(key)] = None if row is None else b""
        for _ in batch.put_all(self.name, rows):
            pass
        self._note(self._take_progress(), batch)
        self.committed_time = self._noted_progress[0]

    def pass_over(self, batch: CommitBatch, key: bytes) -> None:
        """Note the key of the last of the records that are restored, which has no row."""
        self.sequence = self.schema.sequence(key)
        self._note(self._take_progress(), batch)

    def _restored_time(self, key: bytes) -> int:
        time = self.schema.time(key) if len(key) >= self.schema.suffix_bytes else -1
        if time < 0:
            raise unexpected_changelog_key(self.name, key, "is not a windowed key")
        return time

    def _take_progress(self) -> _Progress:
        progress = _Progress(self.stream_time, self.sequence, self._holds_expired, self.expiry_time)
        self._holds_expired = False
        return progress

    def _note(self, progress: _Progress, batch: CommitBatch) -> None:
        """Put ``progress`` to ``batch``, and delete the segments that have expired since the one before it."""
        stream_time, sequence, holds_expired, expiry_time = progress
        noted = PROGRESS.pack(stream_time, sequence)
        if noted != self._noted:
            batch.put(self.name, PROGRESS_KEY, noted)
        first_live = self.segments.first_live(expiry_time)
        if holds_expired or first_live > self.segments.first_live(self._noted_expiry):
            # One range, however many they are. Whatever was put there in this batch is deleted, too.
            batch.delete_range(self.name, pack_segment(0), pack_segment(first_live))
            if self.time_order is not None:
                self.time_order.delete_before(self.segments.first_timestamp(first_live), batch)
        self._noted, self._noted_progress, self._noted_expiry = noted, (stream_time, sequence), expiry_time


def _in_order(scans: list[Iterator[EntryRow]], reverse: bool) -> Iterator[EntryRow]:
    return chain.from_iterable(reversed(scans) if reverse else scans)
