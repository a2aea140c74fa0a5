"""The versions of each key: puts, and look-ups of the version that was valid at a time.

The latest version of a key has a row of its own, so that what most look-ups want is one get. A version that was
replaced, or deleted, goes to the row of its key's history in the segment of *that* time (``history.py``): all versions
whose end has expired lie in segments that have, and are deleted with them. A key whose latest version is a deletion has
no latest row, but a history that ends there. The rules are Kafka Streams' (``RocksDBVersionedStore``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from penstock.common.log import logger
from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.rows.row_formats import NO_TIMESTAMP, TIMESTAMPED_VALUE, VALUE
from penstock.state.rows.sections import SectionBatch, SectionRows
from penstock.state.versioned.history import HISTORY, History
from penstock.state.versioned.latest_buffer import NOT_PUT, VALID_TO_UNDEFINED, LatestBuffer
from penstock.state.windowed.segments import FEW, NOTHING_OBSERVED, SEGMENT_BYTES, pack_segment, with_rows
from penstock.state.write_buffer.buffered_store import looked_up
from penstock.state.write_buffer.write_buffer import WriteBuffer

_LATEST_ROWS = b"\xfe"
"""Byte before the keys of latest rows. The number of a segment, before the keys of history rows, begins with a smaller
one: times are not negative."""
_PROGRESS_KEY = b"\xffprogress"
"""A key after all rows: neither the number of a segment nor a latest row begins with this byte."""
BEHIND_ROWS = b"\xff"
"""After the keys of all rows of versions."""
_PROGRESS = Struct(">q")


def key_of_row(row_key: bytes) -> bytes:
    """Returns the key in the key of a row of versions."""
    return row_key[len(_LATEST_ROWS) if row_key.startswith(_LATEST_ROWS) else SEGMENT_BYTES :]


class Version(NamedTuple):
    """A value, the time from which it is valid, and the time until which it is; None: it is the latest of its key."""

    value: Any
    valid_from: int
    valid_to: int | None


class Versions:
    """The versions of one store. ``stream_time`` is the largest timestamp that was ever put; from ``expiry_time`` the
    history's retention is counted: see :class:`~penstock.state.windowed.expiring_rows.ExpiringRows`."""

    def __init__(
        self,
        name: str,
        value_serde: Serde[Any] | None,
        history_retention_ms: int,
        segment_interval_ms: int,
        context: StateStoreContext,
    ) -> None:
        self.name = name
        self.retention_ms = history_retention_ms
        self.interval_ms = segment_interval_ms
        self._live_segments = max(FEW, history_retention_ms // segment_interval_ms + 2)
        # Both log nothing by themselves: the changelog has one record for each put, whatever rows it changes.
        rows = replace(context, log=None, caching=False)
        latest_rows = replace(rows, committed=SectionRows(rows.committed, _LATEST_ROWS))
        self.latest = LatestBuffer(name, value_serde, latest_rows, self._put, context.log)
        self.history = WriteBuffer(name, HISTORY, VALUE, rows)
        self._deserialize = value_serde.deserialize if value_serde is not None else None
        self._committed = context.committed
        self._drop_record = context.drop_record
        self._frozen: list[WriteBuffer] = []
        self._frozen_times: tuple[int, int] | None = None
        self._continues_from = self._expiry_limit = LARGEST_TIMESTAMP
        self.read_progress()

    def read_progress(self) -> None:
        """Read the progress of the store from its committed rows."""
        self.stream_time = self._noted_time = self._committed_time()
        self.expiry_time = self._noted_expiry = min(self.stream_time, self._continues_from)
        self._know_flushed(self.stream_time)

    def continue_from(self, time: int) -> None:
        """See :meth:`~penstock.state.windowed.expiring_rows.ExpiringRows.continue_from`."""
        self._continues_from = time
        self.expiry_time = min(self.stream_time, time)
        self._noted_expiry = min(self._noted_expiry, self.expiry_time)

    def restores_for(self, other: Versions) -> None:
        """Prepare to restore ``other`` into a batch.

        Puts that were too late stay too late. Nothing is deleted that ``other`` may still look up.
        """
        self._expiry_limit = other._continues_from
        self._noted_expiry = other._noted_expiry

    def _know_flushed(self, stream_time: int) -> None:
        # Only dirty rows lie in a later segment: nothing else that was put has ended there.
        self._last_flushed = self._segment(stream_time)

    def _committed_time(self) -> int:
        noted = self._committed.get(_PROGRESS_KEY)
        if noted is None:
            return NOTHING_OBSERVED
        (stream_time,) = _PROGRESS.unpack(noted)
        return int(stream_time)

    # ---- put ----

    def _put(self, key: bytes, value: Any, data: bytes | None, timestamp: int, headers: Headers | None) -> int:
        if timestamp > self.expiry_time:
            self.expiry_time = timestamp
            self.stream_time = max(self.stream_time, timestamp)
        elif self.is_too_late(timestamp):
            self._drop(key, timestamp)
            return NOT_PUT
        latest = self.latest
        before, since, _, _ = latest.dirty.get(key) or latest.load(key)
        if before is not None and timestamp >= since:
            if timestamp > since:
                self._append(key, since, timestamp, latest.serialized(key, before))
            latest.set_latest(key, value, timestamp, headers)
            return VALID_TO_UNDEFINED
        found = None if before is None else since
        for segment in reversed(self._segments(timestamp, self.stream_time)):
            history = self._history(segment, key)
            if history is None:
                continue
            if history.end <= timestamp:
                break
            if history.start <= timestamp:
                return self._put_into(history, segment, key, data, timestamp)
            found = history.start
        if found is not None:
            return self._put_before(found, key, data, timestamp)
        if value is not None:
            latest.set_latest(key, value, timestamp, headers)
        else:
            self._delete_last(key, timestamp)
        return VALID_TO_UNDEFINED

    def is_too_late(self, timestamp: int) -> bool:
        """Returns True if a version of ``timestamp`` is older than the history that is kept."""
        return timestamp < self.expiry_time - self.retention_ms

    def _drop(self, key: bytes, timestamp: int) -> None:
        logger(__name__).warning(
            "Skipping record for expired put.",
            store=self.name,
            key=key,
            timestamp=timestamp,
            observed_stream_time=self.expiry_time,
            history_retention_ms=self.retention_ms,
        )
        self._drop_record()

    def _put_into(self, history: History, segment: int, key: bytes, data: bytes | None, timestamp: int) -> int:
        """Put a version between those of a row. Returns its end."""
        index = history.at(timestamp)
        valid_to = history.valid_to(index)
        if history.starts[index] == timestamp:
            history.values[index] = data
        elif self._segment(timestamp) != segment:
            # The version that ends here now belongs in an older segment. It was the first of its row.
            self._append(key, history.starts[index], timestamp, history.values[index])
            history.starts[index], history.values[index] = timestamp, data
        else:
            history.insert(index + 1, timestamp, data)
        self._set_history(segment, key, history)
        return valid_to

    def _put_before(self, valid_to: int, key: bytes, data: bytes | None, timestamp: int) -> int:
        """Put a version that ends where the next one, at ``valid_to``, begins. Returns that end."""
        segment = self._segment(valid_to)
        history = self._history(segment, key)
        if history is None:
            history = History(valid_to, [timestamp], [data])
        elif history.end <= timestamp:
            history.append(timestamp, valid_to, data)
        else:
            history.insert(0, timestamp, data)
        self._set_history(segment, key, history)
        return valid_to

    def _delete_last(self, key: bytes, timestamp: int) -> None:
        """Put a deletion after all versions of a key that has no latest one."""
        segment = self._segment(timestamp)
        history = self._history(segment, key)
        if history is None:
            history = History(timestamp, [], [])
        elif history.end == timestamp:
            return
        else:
            history.append(history.end, timestamp, None)
        self._set_history(segment, key, history)

    def _append(self, key: bytes, valid_from: int, valid_to: int, data: bytes | None) -> None:
        segment = self._segment(valid_to)
        history = self._history(segment, key)
        if history is None:
            history = History(valid_to, [valid_from], [data])
        else:
            history.append(valid_from, valid_to, data)
        self._set_history(segment, key, history)

    def _segment(self, timestamp: int) -> int:
        return timestamp // self.interval_ms

    def _history(self, segment: int, key: bytes) -> History | None:
        row_key, buffer = pack_segment(segment) + key, self.history
        entry = buffer.dirty.get(row_key)
        if entry is None:
            if segment > self._last_flushed:
                return None
            entry = buffer.load(row_key)
        history: History | None = entry[0]
        return history

    def _set_history(self, segment: int, key: bytes, history: History) -> None:
        self.history.put(pack_segment(segment) + key, history, NO_TIMESTAMP, None)

    # ---- look-ups ----

    def get(self, key: bytes) -> Version | None:
        """The latest version of ``key``."""
        entry = self.latest.get(key)
        return None if entry is None else Version(entry[0], entry[1], None)

    def get_as_of(self, key: bytes, timestamp: int) -> Version | None:
        """Returns the version valid at ``timestamp``; None before the kept history, unless it is the latest version."""
        latest = self.latest
        value, since, _, _ = latest.dirty.get(key) or latest.load(key)
        if value is not None and since <= timestamp:
            return Version(value, since, None)
        return self.older(key, timestamp)

    def older(self, key: bytes, timestamp: int) -> Version | None:
        """Like :meth:`get_as_of`, for a key whose latest version is not that old."""
        return self._find(key, timestamp, self.stream_time, self._history)

    def peek(self, key: bytes, timestamp: int | None, committed: bool) -> Version | None:
        """Like :meth:`get_as_of`, or without ``timestamp`` :meth:`get`, but leaves memory as it is; ``committed``
        leaves out what no commit has taken yet."""
        entry = looked_up(self.latest, key, committed)
        if entry is not None and (timestamp is None or entry[1] <= timestamp):
            return Version(entry[0], entry[1], None)
        if timestamp is None:
            return None
        history_of = partial(self._peek_history, committed=committed)
        stream_time = self._committed_time() if committed else self.stream_time
        return self._find(key, timestamp, stream_time, history_of, committed)

    def peek_all(
        self, key: bytes, time_from: int, time_to: int, committed: bool, descending: bool
    ) -> Iterator[Version]:
        """The versions of ``key`` that were valid at any time between the two, as far as history is kept: those that
        :meth:`peek` returns for these times. By time, or backwards."""
        if time_from > time_to:
            return
        stream_time = self._committed_time() if committed else self.stream_time
        time_from = max(time_from, stream_time - self.retention_ms, 0)
        segments = self._segments(time_from, stream_time, committed) if time_from <= time_to else ()
        entry = looked_up(self.latest, key, committed)
        latest = [Version(entry[0], entry[1], None)] if entry is not None and entry[1] <= time_to else []
        if descending:
            yield from latest
        for segment in reversed(segments) if descending else segments:
            history = self._peek_history(segment, key, committed)
            if history is None:
                continue
            indices = range(len(history.starts))
            for index in reversed(indices) if descending else indices:
                since, data, valid_to = history.starts[index], history.values[index], history.valid_to(index)
                if data is not None and since <= time_to and valid_to > time_from and self._deserialize is not None:
                    yield Version(self._deserialize(data), since, valid_to)
        if not descending:
            yield from latest

    def _segments(self, time_from: int, time_to: int, committed: bool = False) -> Sequence[int]:
        """Returns the segments of these times, oldest first; only those with rows if they are more than can be live."""
        segments = range(self._segment(time_from), self._segment(time_to) + 1)
        if len(segments) <= self._live_segments:
            return segments
        return with_rows(segments, partial(self.history.scan, committed=committed, limit=1))

    def _peek_history(self, segment: int, key: bytes, committed: bool) -> History | None:
        entry = looked_up(self.history, pack_segment(segment) + key, committed)
        return None if entry is None else entry[0]

    def _find(
        self,
        key: bytes,
        timestamp: int,
        stream_time: int,
        history_of: Callable[[int, bytes], History | None],
        committed: bool = False,
    ) -> Version | None:
        if timestamp < 0 or timestamp < min(stream_time, self.expiry_time) - self.retention_ms:
            return None
        for segment in reversed(self._segments(timestamp, stream_time, committed)):
            history = history_of(segment, key)
            if history is None:
                continue
            if history.end <= timestamp:
                return None
            if history.start <= timestamp:
                index = history.at(timestamp)
                if (data := history.values[index]) is None:
                    return None
                assert self._deserialize is not None
                return Version(self._deserialize(data), history.starts[index], history.valid_to(index))
        return None

    @property
    def kept_from(self) -> int:
        """Time (ms) from which on committed versions are kept; a version that was replaced before may be gone."""
        return min(self._committed_time(), self.expiry_time) - self.retention_ms

    def committed_records(self, key: bytes) -> Iterator[tuple[bytes | None, int]]:
        """Yields the puts, by time, that lead to the committed versions of ``key``: (value, timestamp)."""
        rows, stream_time, end = self._committed, self._committed_time(), None
        for segment in range(self._first_live(stream_time), self._segment(stream_time) + 1):
            row = rows.get(pack_segment(segment) + key)
            if row is None:
                continue
            history = HISTORY.deserialize(row)
            if end is not None and end < history.start:
                yield None, end
            yield from zip(history.values, history.starts, strict=True)
            end = history.end
        latest = self.latest.committed.get(key)
        since = None
        if latest is not None:
            value, since = TIMESTAMPED_VALUE.value_and_timestamp(latest)
        if end is not None and end != since:
            yield None, end
        if since is not None:
            yield value, since

    # ---- commit and restore ----

    @property
    def has_changes(self) -> bool:
        """True if there is something to flush."""
        return bool(self.latest.dirty or self.history.dirty)

    def freeze(self) -> None:
        """Set all changes apart for :meth:`flush`."""
        # One that has none must not be flushed: it would take what is changed from here on.
        self._frozen = [buffer for buffer in (self.latest, self.history) if buffer.dirty]
        for buffer in self._frozen:
            buffer.freeze()
        self._frozen_times = self.stream_time, self.expiry_time
        self._know_flushed(self.stream_time)

    def flush(self, batch: CommitBatch) -> Iterator[None]:
        """Move the changes to ``batch``; histories that had expired by then are deleted."""
        if self._frozen_times is None:
            self.freeze()
        times, self._frozen_times = self._frozen_times, None
        assert times is not None
        stream_time, expiry_time = times[0], min(times[1], self._expiry_limit)
        for buffer in self._frozen:
            yield from buffer.flush(SectionBatch(batch, _LATEST_ROWS) if buffer is self.latest else batch)
        self._frozen = []
        if stream_time != self._noted_time:
            batch.put(self.name, _PROGRESS_KEY, _PROGRESS.pack(stream_time))
        first_live = self._first_live(expiry_time)
        if first_live > self._first_live(self._noted_expiry):
            # One range, however many they are. Whatever was put there in this batch is deleted, too.
            batch.delete_range(self.name, pack_segment(0), pack_segment(first_live))
        self._noted_time, self._noted_expiry = stream_time, expiry_time

    def _first_live(self, stream_time: int) -> int:
        return self._segment(max(stream_time - self.retention_ms, 0))

    def batch_written(self) -> None:
        """Called when the batch is on disk: committed rows have the changes now."""
        self.latest.batch_written()
        self.history.batch_written()

    def take_progress_of(self, restored: Versions) -> None:
        """Take over the progress of ``restored``, whose changes are in a batch that is about to be written."""
        self.forget_objects()
        self.stream_time = self._noted_time = restored.stream_time
        self.expiry_time = self._noted_expiry = min(self.stream_time, self._continues_from)
        self._know_flushed(self.stream_time)

    def forget_objects(self) -> None:
        """Read committed rows from their bytes again."""
        self.latest.forget_objects()
        self.history.forget_objects()
