"""The write buffer: live objects over the committed rows of one store.

All that a task changes between two commits stands here, and only here: the store on disk holds committed state. The
buffer is also Kafka Streams' record cache. Where caching is on, an update waits in ``dirty`` until the commit flushes
it, so that downstream and the changelog see one update per key; where it is off, they see each at once.

Keys are serialised bytes, because that is what equality and order of keys mean in Kafka Streams. Values are objects,
serialised once per commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.records import Headers
from penstock.state.builders import AnyStoreBuilder, StoreKind
from penstock.state.contracts import CommitBatch, CommittedStore

Entry = tuple[Any, int, Headers | None, int]
"""(value, timestamp, headers of the update, its number). A value of None is a deletion, or a key known to be absent.

A flush goes by the order of the last update of each key, as Kafka Streams' NamedCache does. Numbering them and sorting
once per commit is cheaper by half a microsecond per update than moving each in the dictionary.
"""

ABSENT: Entry = (None, -1, None, 0)

Log = Callable[[bytes, bytes | None, int], None]
"""Writes (key, value or None, timestamp) to the store's changelog."""

OnFlush = Callable[[bytes, Any, Any, int, Headers | None], None]
"""Hears of each flushed update: (key bytes, new value, old value, timestamp, headers)."""

# What Kafka Streams counts for an entry of its cache beside key and value: three references, a flag and the record's
# coordinates (NamedCache.LRUNode and ProcessorRecordContext), with a topic name of 20 characters.
CACHE_ENTRY_OVERHEAD_BYTES = 65

# A flush gives way to queries after this many entries: about 2 ms of work.
FLUSH_STEP_ENTRIES = 512


class WriteBuffer:
    """One store of one task. ``dirty`` and ``clean`` never change identity, so operators may hold on to them."""

    def __init__(
        self,
        builder: AnyStoreBuilder,
        committed: CommittedStore,
        log: Log | None,
        caching: bool,
    ) -> None:
        if builder.value_serde is None:
            raise ValueError(f"store {builder.name} was not given a value serde")
        self.name = builder.name
        self.caching = caching
        self.timestamped = builder.kind is StoreKind.TIMESTAMPED_KEY_VALUE
        self.committed = committed
        self.dirty: dict[bytes, Entry] = {}
        self.clean: dict[bytes, Entry] = {}
        self.tick = count(1).__next__
        self.misses = 0
        self.on_flush: OnFlush | None = None
        self.send_old_values = False
        self._flushed: dict[bytes, Entry] = {}
        self._log = log
        self._serialize = builder.value_serde.serialize
        self._deserialize = builder.value_serde.deserialize
        self._mean_entry_bytes = 0.0

    # ---- rows ----

    def decode(self, row: bytes) -> Entry:
        """The entry of a committed row."""
        if self.timestamped:
            return self._deserialize(row[8:]), int.from_bytes(row[:8], "big", signed=True), None, 0
        return self._deserialize(row), -1, None, 0

    # ---- what operators do ----

    def load(self, key: bytes) -> Entry:
        """The entry of a key that is not in ``dirty``: ABSENT, or one with value None, if there is none."""
        entry = self.clean.get(key)
        if entry is None:
            self.misses += 1
            row = self.committed.get(key)
            entry = self.clean[key] = ABSENT if row is None else self.decode(row)
        return entry

    def get(self, key: bytes) -> Entry | None:
        """The entry of ``key`` with its uncommitted changes; None when absent or deleted."""
        entry = self.dirty.get(key) or self.load(key)
        return None if entry[0] is None else entry

    def put(self, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Set ``key``, or delete it with None. An uncached store writes its changelog here, at once."""
        if not self.caching and self._log is not None:
            self._log(key, None if value is None else self._serialize(value), timestamp)
        self.dirty[key] = (value, timestamp, headers, self.tick())

    def prefetch(self, keys: list[bytes | None]) -> None:
        """Bring the rows of ``keys`` in by one multi-get, which lets other threads run meanwhile."""
        dirty, clean = self.dirty, self.clean
        missing = list({key for key in keys if key is not None and key not in dirty and key not in clean})
        if missing:
            for key, row in zip(missing, self.committed.get_many(missing), strict=True):
                clean[key] = ABSENT if row is None else self.decode(row)
            self.misses += len(missing)

    # ---- commit ----

    def flush(self, batch: CommitBatch) -> Iterator[None]:
        """Move every update into ``batch``; cached ones also go to the changelog and downstream, in this order, each.

        Gives way (yields) now and then; the buffer answers look-ups truly at each such moment. Raises
        SerializationError for a value that the store's serde refuses.
        """
        dirty, flushed, caching = self.dirty, self._flushed, self.caching
        if not dirty:
            return
        updates = sorted(dirty.items(), key=_update_number) if caching else list(dirty.items())
        before = {key: flushed[key] for key in dirty if key in flushed} if flushed else {}
        flushed.update(dirty)
        self.clean.update(dirty)
        dirty.clear()
        yield  # sorting takes about a microsecond per key
        serialize, timestamped, name = self._serialize, self.timestamped, self.name
        put, delete = batch.put, batch.delete
        log, on_flush = (self._log, self.on_flush) if caching else (None, None)
        total = 0
        for number, (key, (value, timestamp, headers, _)) in enumerate(updates, 1):
            old = self._old_value(key, value, before) if caching else None
            if value is None:
                if caching and old is None:
                    continue  # a key that came and went within one commit never existed for anyone else
                data = None
                delete(name, key)
            else:
                try:
                    data = serialize(value)
                except Exception as error:
                    raise SerializationError(
                        f"store {name}: the value of key {key!r} cannot be serialised: {type(error).__name__}: {error}"
                    ) from error
                put(name, key, timestamp.to_bytes(8, "big", signed=True) + data if timestamped else data)
                total += len(data)
            if log is not None:
                log(key, data, timestamp)
            if on_flush is not None:
                on_flush(key, value, old if self.send_old_values else None, timestamp, headers)
            total += len(key)
            if number % FLUSH_STEP_ENTRIES == 0:
                yield
        self._mean_entry_bytes = total / len(updates) + CACHE_ENTRY_OVERHEAD_BYTES

    def _old_value(self, key: bytes, value: Any, before: dict[bytes, Entry]) -> Any:
        """What downstream was told last: ``before`` holds what this commit has flushed already."""
        if value is not None and not self.send_old_values:
            return None
        if key in before:
            return before[key][0]
        row = self.committed.get(key)
        return None if row is None else self.decode(row)[0]

    def committed_now(self) -> None:
        """The batch is on disk."""
        self._flushed.clear()

    def trim(self, keep_bytes: int) -> None:
        """Let the older half of the entries that were only read, or are committed, go when keys and values of all of
        them come to more than ``keep_bytes``. Not to be called between ``flush`` and ``committed_now``."""
        if len(self.clean) * max(self._mean_entry_bytes - CACHE_ENTRY_OVERHEAD_BYTES, 16.0) > keep_bytes:
            for key in list(islice(self.clean, (len(self.clean) + 1) // 2)):
                del self.clean[key]

    def forget_objects(self) -> None:
        """Read committed rows from their bytes again, as after a restart. Not to be called between ``flush`` and
        ``committed_now``."""
        self.clean.clear()

    def dirty_bytes(self) -> int:
        """About what Kafka Streams' cache would count for the updates that wait."""
        if not self.dirty:
            return 0
        if not self._mean_entry_bytes:
            key, (value, *_) = next(iter(self.dirty.items()))
            size = len(key) + (0 if value is None else len(self._serialize(value)))
            self._mean_entry_bytes = size + CACHE_ENTRY_OVERHEAD_BYTES
        return int(len(self.dirty) * self._mean_entry_bytes)

    # ---- reading in order ----

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False, committed: bool = False
    ) -> Iterator[tuple[bytes, Entry]]:
        """Entries by key, both ends included, None open; ``committed`` leaves out what no commit has taken yet."""
        rows = self.committed.scan(from_key, to_key, reverse)
        decode = self.decode
        if committed:
            return ((key, decode(row)) for key, row in rows)
        changes = {**self._flushed, **self.dirty}
        inside = [key for key in changes if (from_key is None or key >= from_key) and (to_key is None or key <= to_key)]
        inside.sort(reverse=reverse)
        return self._overlay(rows, inside, changes, reverse)

    def _overlay(
        self, rows: Iterator[tuple[bytes, bytes]], inside: list[bytes], changes: dict[bytes, Entry], reverse: bool
    ) -> Iterator[tuple[bytes, Entry]]:
        position = 0
        for key, row in rows:
            while position < len(inside) and (inside[position] > key if reverse else inside[position] < key):
                changed = inside[position]
                position += 1
                if changes[changed][0] is not None:
                    yield changed, changes[changed]
            if position < len(inside) and inside[position] == key:
                position += 1
                if changes[key][0] is not None:
                    yield key, changes[key]
            else:
                yield key, self.decode(row)
        for changed in inside[position:]:
            if changes[changed][0] is not None:
                yield changed, changes[changed]

    def approximate_num_entries(self) -> int:
        """Committed rows plus updates that wait to be committed: a key that is in both counts twice."""
        return self.committed.approximate_num_entries() + len(self.dirty) + len(self._flushed)


def _update_number(update: tuple[bytes, Entry]) -> int:
    return update[1][3]
