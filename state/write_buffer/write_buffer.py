"""The write buffer: live objects over the committed rows of one store.

All that a task changes between two commits is here, and only here: the store on disk holds committed state. The buffer
is also Kafka Streams' record cache. If caching is on, an update waits in ``dirty`` until the commit flushes it, so that
downstream and the changelog see one update per key; if it is off, they see each at once.

Keys are serialised bytes, because Kafka Streams compares and orders keys by their bytes. Values are objects, serialised
once per commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import itemgetter
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.records import Headers
from penstock.common.serdes import Serde, why_refused
from penstock.state.contracts import CommitBatch, StateStoreContext
from penstock.state.queries import end_of_prefix
from penstock.state.rows.round_trip import RoundTripCheck
from penstock.state.rows.row_formats import NO_TIMESTAMP, UNCHANGEABLE, Entry, EntryRow, RowFormat
from penstock.state.write_buffer.committed_rows import CommittedRows
from penstock.state.write_buffer.flush_listeners import FlushListeners, OnFlush
from penstock.state.write_buffer.in_steps import sorted_by
from penstock.state.write_buffer.kept_entries import KeptSizes
from penstock.state.write_buffer.ordered_changes import OrderedChanges
from penstock.state.write_buffer.overlay import overlay
from penstock.state.write_buffer.sizes import SAMPLE_EVERY, WaitingSizes, strides

_NUMBER = itemgetter(3)  # of two updates, the later one has the larger
ABSENT: Entry = (None, NO_TIMESTAMP, None, 0)
FLUSH_STEP_ENTRIES = 512  # about 2 ms of work, after which a flush gives way to queries


class WriteBuffer:
    """Changes of one store of one task since the last commit, and the committed rows that it keeps.

    It knows no kind of store: keys here are those of the rows, ``row_format`` is the form of a row, and ``front_bytes``
    of a row's key come before the key in the changelog.

    Operators may hold on to ``dirty`` and ``clean``, which never change identity, and read them before they call
    :meth:`load`.

    Committed entries that were used lately are kept in two generations, ``clean`` and an older one: what is used again
    goes back to the younger, and :meth:`drop_unused` drops the older. While memory is short, rows are kept as bytes.
    """

    def __init__(
        self,
        name: str,
        value_serde: Serde[Any] | None,
        row_format: RowFormat,
        context: StateStoreContext,
        front_bytes: int = 0,
    ) -> None:
        if value_serde is None:
            raise ValueError(f"store {name} was not given a value serde")
        self.name = name
        self.caching = context.caching
        self.row_format = row_format
        self.committed = context.committed
        self.decode = row_format.decoder(value_serde.deserialize)
        """The entry of a committed row."""
        self.dirty: dict[bytes, Entry] = {}
        self.clean: dict[bytes, Entry] = {}
        self.next_update_number = count(1).__next__
        """Numbers the updates: a flush is in the order of the last update of each key, as in Kafka Streams' NamedCache.
        Sorting once per commit is cheaper by half a microsecond each than moving the key in the dictionary."""
        self.show_key: Callable[[bytes], str] = repr
        """Makes the key of a row readable for people."""
        self.flushes_every_deletion = False
        """True if deletions of keys are flushed that nothing outside has seen, as Kafka Streams' cache does if no
        operator listens."""
        self._listeners = FlushListeners()
        self._flushed: dict[bytes, Entry] = {}
        self._flushed_mean = 0.0
        self._frozen: dict[bytes, Entry] = {}
        self._is_frozen = False
        self._before: dict[bytes, Entry] = {}
        self._log = context.log
        self._front_bytes = front_bytes
        self._value_serde = value_serde
        self._serialize = value_serde.serialize
        self._older: dict[bytes, Entry] = {}
        self._disk = CommittedRows(context.committed)
        self._changes = OrderedChanges(self.dirty, self._flushed, self._apart)
        self._waiting = WaitingSizes(self.dirty, self._serialize)
        self._kept = KeptSizes()
        self._keeps_frozen = True
        self._stride = strides()
        self._sample_put_at = 0
        self._sample_read_at = 1
        self._updates = 0
        self._round_trip = RoundTripCheck(name, "value", value_serde)

    def load(self, key: bytes) -> Entry:
        """The entry of a key that is not in ``dirty``: ABSENT, or one with value None, if there is none."""
        entry = self.clean.get(key)
        if entry is None:
            older = self._older.pop(key, None)
            entry = self.clean[key] = older or self._read(key, to_update=False)
        return entry

    def load_to_update(self, key: bytes) -> Entry:
        """Like :meth:`load`, for a key that is put next: the entry is not kept."""
        entry = self.clean.pop(key, None)
        if self._older:
            # Taken out in any case: the entry there may be of an earlier commit than the one in ``clean``.
            older = self._older.pop(key, None)
            entry = entry or older
        return entry or self._read(key, to_update=True)

    def load_not_committed(self, key: bytes) -> Entry:
        """Like :meth:`load`, for a key that no finished commit can have written: it does not read the disk."""
        if self._flushed and (flushed := self._flushed.get(key)):
            return self._apart(key, flushed)
        return ABSENT

    def _read(self, key: bytes, to_update: bool) -> Entry:
        if self._flushed and (flushed := self._flushed.get(key)):
            return self._apart(key, flushed)
        disk = self._disk
        row = disk.read(key, to_update)
        entry = ABSENT if row is None else self.decode(row)
        if disk.misses >= self._sample_read_at:
            self._sample_read_at = disk.misses + self._stride()
            self._kept.read(key, entry[0], len(row or b""), len(self.clean))
        return entry

    def allow_bytes(self) -> None:
        """Keep rows as bytes while memory is short. Not for stores that delete ranges: kept rows would stay."""
        self._disk.allows_bytes = True

    @property
    def misses(self) -> int:
        """The number of committed rows that were read from disk, prefetched ones included."""
        return self._disk.misses

    def _apart(self, key: bytes, flushed: Entry) -> Entry:
        """Returns ``flushed``, or a copy while its value waits to be serialised: a function that changes the value in
        place must not change what is committed."""
        value = flushed[0]
        if type(value) in UNCHANGEABLE or key not in self._frozen:
            return flushed
        try:
            copied = self._value_serde.deserialize(self._serialize(value))
        except Exception as error:
            raise self.refused(key, value, error) from error
        return copied, flushed[1], flushed[2], flushed[3]

    def get(self, key: bytes) -> Entry | None:
        """The entry of ``key`` with its uncommitted changes; None if absent or deleted."""
        entry = self.dirty.get(key) or self.load(key)
        return None if entry[0] is None else entry

    def peek(self, key: bytes) -> Entry | None:
        """Returns the entry of ``key`` if it is in memory, and leaves memory as it is. Value None is a deletion."""
        return self.dirty.get(key) or self.clean.get(key) or self._flushed.get(key) or self._older.get(key)

    def put(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Set ``key``, or delete it with None. An uncached store writes its changelog here, at once."""
        number = self.next_update_number()
        data = None
        if not self.caching and self._log is not None:
            try:
                data = None if value is None else self._serialize(value)
            except Exception as error:
                raise self.refused(key, value, error) from error
            self._log(key[self._front_bytes :], data, timestamp)
        if value is None and self._take_back(key):
            return
        if number < self._sample_put_at:
            self.dirty[key] = (value, timestamp, headers, number)
            return
        new = key not in self.dirty
        self.dirty[key] = (value, timestamp, headers, number)
        self._sample_put_at = number + self._stride()
        self._waiting.drawn(key, new, data)

    @property
    def takes_direct_writes(self) -> bool:
        """True if an operator may write ``dirty[key] = (value, timestamp, headers, next_update_number())`` in place of
        :meth:`put`. The value must not be None. All must be of one size, because such a write is not sampled."""
        return self.caching and type(self).put is WriteBuffer.put

    def _take_back(self, key: bytes) -> bool:
        """Forget the update of a key that came since the last commit and is deleted now: otherwise a growing session
        would leave a deletion behind at each record, and every scan would look at them all."""
        dirty = self.dirty
        # The last one stays: a store that was changed has something to flush, if only how far it has come in time.
        must_stay = len(dirty) < 2 or key not in dirty or key in self._flushed or self.flushes_every_deletion
        if must_stay or self._is_on_disk(key):
            return False
        self._changes.take_back(key)
        del dirty[key]
        self._waiting.taken_back(key)
        return True

    def _is_on_disk(self, key: bytes) -> bool:
        return self._disk.look_at(key) is not None

    def prefetch(self, keys: Sequence[bytes | None]) -> None:
        """Read the committed rows of ``keys``, which will be asked for soon."""
        dirty, clean, older = self.dirty, self.clean, self._older
        self._disk.prefetch(
            [key for key in set(keys) if key is not None and key not in dirty and key not in clean and key not in older]
        )

    def listen(self, on_flush: OnFlush, old_values: bool) -> None:
        """Call ``on_flush`` with each update that a store with caching flushes, after all listeners added before.

        Without ``old_values`` it gets None in place of each old value.
        """
        self._listeners.add(on_flush, old_values)

    def freeze(self) -> None:
        """Set every update until now apart for :meth:`flush`; every later one belongs to another commit."""
        dirty, flushed = self.dirty, self._flushed
        self._is_frozen = True
        if not dirty:
            return
        self._changes.begin_flush()
        self._before = {key: flushed[key] for key in dirty if key in flushed} if flushed else {}
        self._frozen = dirty.copy()
        flushed.update(dirty)
        mean = self._waiting.begin_flush()
        self._flushed_mean = mean
        self._keeps_frozen = self._disk.begin_flush(self._updates + len(dirty), len(dirty))
        if self._keeps_frozen:
            self._kept.flushed(len(dirty), mean, len(self.clean))
        for kept in (self.clean, self._older):
            if kept:
                for key in dirty:
                    kept.pop(key, None)
        if len(dirty) > SAMPLE_EVERY:  # of small commits one in so many updates is measured, not one in each
            self._sample_put_at = 0
        dirty.clear()

    def flush(self, batch: CommitBatch) -> Iterator[None]:
        """Move every update into ``batch``; each cached one also goes to the changelog and then downstream.
        After :meth:`freeze`: the updates that it set apart, if any.

        Gives way (yields) now and then; look-ups in the buffer are correct at each such moment. Raises
        SerializationError for a value that the store's serde refuses.
        """
        caching = self.caching
        if not self._is_frozen:
            self.freeze()
        self._is_frozen = False
        before, self._before = self._before, {}
        if not self._frozen:
            return
        updates, clean = list(self._frozen.items()), self.clean
        if caching and len(updates) > 1:
            updates = yield from sorted_by(list(map(_NUMBER, self._frozen.values())), updates)
        self._check_round_trips(updates)
        rows: dict[bytes, bytes | None] = {}
        notify = self._listeners.as_one() if caching else None
        for begin in range(0, len(updates), FLUSH_STEP_ENTRIES):
            step = updates[begin : begin + FLUSH_STEP_ENTRIES]
            if self._keeps_frozen:
                clean.update(step)
            self._flush_step(step, before, rows, notify)
            yield
        self._frozen = {}
        self._waiting.flushed(len(updates), sum(map(len, rows)) + sum(map(len, filter(None, rows.values()))))
        yield from batch.put_all(self.name, rows)
        yield from self._disk.flushed(rows)

    def _flush_step(
        self,
        updates: list[EntryRow],
        before: dict[bytes, Entry],
        rows: dict[bytes, bytes | None],
        on_flush: OnFlush | None,
    ) -> None:
        caching, serialize, header = self.caching, self._serialize, self.row_format.header
        log, front = self._log if caching else None, self._front_bytes
        with_old = caching and self._listeners.want_old_values
        silent = caching and not self.flushes_every_deletion
        old = None
        for key, (value, timestamp, headers, _) in updates:
            if with_old:
                old = self._old_value(key, before)
            if value is None:
                if silent and (old if with_old else self._old_value(key, before)) is None:
                    continue  # a key that came and went within one commit never existed for anyone else
                data = rows[key] = None
            else:
                try:
                    data = serialize(value)
                except Exception as error:
                    raise self.refused(key, value, error) from error
                rows[key] = data if header is None else header(timestamp) + data
            if log is not None:
                log(key[front:] if front else key, data, timestamp)
            if on_flush is not None:
                on_flush(key, value, old, timestamp, headers)

    def refused(self, key: bytes, value: Any, error: Exception) -> SerializationError:
        """The error for a value of ``key`` that its serde does not take."""
        what = f"store {self.name}: the value of key {self.show_key(key)} cannot be serialised"
        return SerializationError(f"{what}: {why_refused(self._value_serde, value, error)}")

    def _check_round_trips(self, updates: list[tuple[bytes, Entry]]) -> None:
        check, before = self._round_trip, self._updates
        self._updates += len(updates)
        if check.next > self._updates:
            return
        while 0 < check.next <= self._updates:
            number = check.next
            value = next((update[1][0] for update in updates[number - before - 1 :] if update[1][0] is not None), None)
            check.check(value, number)

    def _old_value(self, key: bytes, before: dict[bytes, Entry]) -> Any:
        """Returns the last value that downstream got: ``before`` holds what this commit has flushed already."""
        if key in before:
            return before[key][0]
        row = self._disk.look_at(key)
        return None if row is None else self.decode(row)[0]

    def batch_written(self) -> None:
        """Forget the flushed updates: the batch is on disk."""
        self._flushed.clear()
        self._disk.batch_written()
        self._changes.forget()

    def forget_objects(self) -> None:
        """Read committed rows from their bytes again, as after a restart."""
        self.clean.clear()
        self._older.clear()
        self._disk.forget()

    # ---- memory ----

    def drop_unused(self) -> bool:
        """Drop the committed entries that were not used since the last call, and rows that are kept as bytes once there
        are no entries. Returns False if there is none of either."""
        if not self.clean and not self._older and not self._disk.prefetched.rows:
            return self._disk.drop_some()
        self._older = self.clean.copy()
        self.clean.clear()
        self._kept.aged()
        self._disk.memory_was_full(self._updates + len(self.dirty))
        return True

    def resident_bytes(self) -> float:
        """Estimates how many bytes all entries take in the process, and the rows that were prefetched."""
        kept = len(self.clean) * self._kept.clean + len(self._older) * self._kept.older
        # Flushed entries are among the clean ones, if they are kept, except those that were updated since.
        elsewhere = min(len(self.dirty), len(self._flushed)) if self._keeps_frozen else len(self._flushed)
        flushed = elsewhere * self._flushed_mean
        return self.dirty_resident_bytes() + flushed + kept + self._disk.resident_bytes

    def dirty_resident_bytes(self) -> float:
        """Returns the part of :meth:`resident_bytes` that updates take which wait for the commit."""
        return self._waiting.total().resident

    def flushed_resident_bytes(self) -> float:
        """Estimates how many bytes the updates take that a commit has begun to flush."""
        return len(self._flushed) * self._flushed_mean

    def dirty_cache_bytes(self) -> int:
        """Estimates how many bytes Kafka Streams' cache would count for the updates that wait."""
        return int(self._waiting.total().cached)

    # ---- reading in order ----

    def scan(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        reverse: bool = False,
        committed: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, Entry]]:
        """Entries by key, both ends included, None open; ``committed`` leaves out what no commit has taken yet.

        ``limit``: the caller takes no more than this. Without it all changes between the ends are copied at once.
        """
        rows = self.committed.scan(from_key, to_key, reverse)
        decode = self.decode
        if committed:
            return ((key, decode(row)) for key, row in rows)
        return overlay(rows, self._changes.between(from_key, to_key, reverse, limit), reverse, decode)

    def scan_group(self, name: bytes, group_of: Callable[[bytes], bytes]) -> Iterator[EntryRow]:
        """Entries by key, of the keys that begin with ``name``, for which ``group_of``, the same in every call, returns
        ``name``; maybe of one more key behind them. Keys of other groups need not be put in order for it."""
        rows = self.committed.scan(name, end_of_prefix(name))
        return overlay(rows, self._changes.of_group(name, group_of), False, self.decode)

    def approximate_num_entries(self) -> int:
        """Committed rows plus updates that wait to be committed: a key that is in both counts twice."""
        return self.committed.approximate_num_entries() + len(self.dirty) + len(self._flushed)
