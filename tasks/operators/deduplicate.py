"""``deduplicate``: the first record of an id goes through, those that come near it in event time do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serde, why_refused
from penstock.state.windowed.deduplication_store import (
    DeduplicationStoreBuilder,
    key_and_id,
    pack_seen,
    read_time_and_offset,
    unpack_seen,
)
from penstock.tasks.closures import closure_of
from penstock.tasks.wiring import Store, StreamEdge, Wiring
from penstock.topology.physical.operators.deduplicate import Deduplicate, DeduplicateById

_MOST_PLACES = 1000
_Seen = Callable[[bytes, int], bool]
"""Returns True if a record of this id (bytes) at this time (ms) is a duplicate. Otherwise remembers it, and returns
False."""
_Around = tuple[bytes, bytes, bytes, bytes]
"""The bytes before and after the id in the key of a row: of a window, then of the one before it."""


@closure_of(Deduplicate)
def _deduplicate(spec: Deduplicate, wiring: Wiring) -> StreamEdge:
    store, forward, name = wiring.store, wiring.forward, wiring.name
    is_duplicate, failed, key_bytes = _memory(spec, wiring), wiring.failed_at(store), wiring.key_to_bytes(store)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            try:
                if is_duplicate(key if key_bytes is None else key_bytes(key), timestamp):
                    return
            except Exception as error:  # a serde that does not fit
                failed(error, name, key, value, timestamp)
                return
        forward(key, value, timestamp)

    return run


@closure_of(DeduplicateById)
def _deduplicate_by_id(spec: DeduplicateById, wiring: Wiring) -> StreamEdge:
    store, forward, name = wiring.store, wiring.forward, wiring.name
    is_duplicate, failed, key_bytes = _memory(spec, wiring), wiring.failed_at(store), wiring.key_to_bytes(store)
    extract, with_key, ids = spec.id_extractor, spec.with_key, _id_serde(store)
    id_bytes = ids.serialize

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            try:
                id = extract(key, value) if with_key else extract(value)
                if id is not None:
                    raw = key if key_bytes is None else key_bytes(key)
                    try:
                        raw_id = id_bytes(id)
                    except Exception as error:
                        raise _refused(ids, id, error) from error
                    if is_duplicate(key_and_id(raw, raw_id), timestamp):
                        return
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
        forward(key, value, timestamp)

    return run


def _id_serde(store: Store) -> Serde[Any]:
    builder = store.builder
    assert isinstance(builder, DeduplicationStoreBuilder)
    assert builder.id_serde is not None
    return builder.id_serde


def _refused(ids: Serde[Any], id: Any, error: Exception) -> SerializationError:
    return SerializationError(
        f"the id: {why_refused(ids, id, error)}; pass the right serde by Deduplicated.with_id_serde"
    )


def _memory(spec: Deduplicate, wiring: Wiring) -> _Seen:
    """Returns the test for duplicates, by the rows of the store: one for each id and window that went through.

    A record that is processed again after a failure may find its own row, because the changelog may be ahead of the
    committed offsets. Its result may not have been written, so it goes through again. Its offset identifies it.
    """
    store, context = wiring.store, wiring.context
    rows = store.windowed.rows
    buffer, observed = rows.buffer, wiring.observed_time()
    within, retention, size = spec.within_ms, spec.retention_ms, spec.within_ms
    dirty_get, clean_get = buffer.dirty.get, buffer.clean.get
    load, load_new = buffer.load_to_update, buffer.load_not_committed
    put, around_of = buffer.put, _Windows(store, size)
    source_of = context.source if context.keeps_places else _nowhere
    around_get = around_of.known.get
    went_through, read = _OfOneRecord(), read_time_and_offset
    newest_start = -1

    def near(row: bytes, start: int, timestamp: int, horizon: int) -> bytes | None:
        """Returns the content of ``row`` if it is remembered and near enough, else None."""
        # A row that starts later than all rows on disk is not looked for there.
        entry = dirty_get(row) or clean_get(row) or (load if start <= rows.committed_time else load_new)(row)
        seen: bytes | None = entry[0]
        if seen is not None and horizon <= (time := read(seen)[0]) and -within <= timestamp - time <= within:
            return seen
        return None

    def is_duplicate(id: bytes, timestamp: int) -> bool:
        nonlocal newest_start
        if timestamp > observed.ms:
            observed.ms = timestamp
        horizon = observed.ms - retention
        start = timestamp - timestamp % size
        front, back, front_before, back_before = around_get(start) or around_of(start)
        row = found = front + id + back
        # As near() does, without the call: most duplicates are found here, as all of one window are near enough.
        entry = dirty_get(row) or clean_get(row) or (load if start <= rows.committed_time else load_new)(row)
        seen: bytes | None = entry[0]
        if seen is None or read(seen)[0] < horizon:
            found = front_before + id + back_before
            seen = near(found, start - size, timestamp, horizon)
            if seen is None and start + size <= observed.ms:
                front, back, _, _ = around_get(start + size) or around_of(start + size)
                found = front + id + back
                seen = near(found, start + size, timestamp, horizon)
        source, offset = source_of()
        if seen is not None:
            if read(seen)[1] != offset or source is None or unpack_seen(seen).topic != source.topic:
                return True
            return not went_through.first(found, source, offset)
        if timestamp >= horizon:
            put(row, went_through.seen(row, timestamp, source, offset), timestamp, None)
            if start > newest_start:
                newest_start = start
                rows.observe(start)
        return False

    return is_duplicate


def _nowhere() -> tuple[TopicPartition | None, int]:
    return None, -1


class _OfOneRecord:
    """The rows of the input record that is processed now, which may have become several records on its way here."""

    __slots__ = ("_offset", "_rows", "_source", "_topics")

    def __init__(self) -> None:
        self._source: TopicPartition | None = None
        self._offset = -1
        self._rows: set[bytes] = set()
        self._topics: dict[TopicPartition, bytes] = {}

    def seen(self, row: bytes, timestamp: int, source: TopicPartition | None, offset: int) -> bytes:
        """Note ``row``, which is new; returns its content from now on."""
        if source is None:
            return pack_seen(timestamp, -1, b"")
        self.first(row, source, offset)
        topic = self._topics.get(source) or self._topics.setdefault(source, source.topic.encode())
        return pack_seen(timestamp, offset, topic)

    def first(self, row: bytes, source: TopicPartition, offset: int) -> bool:
        """Note ``row``; returns True if it was not noted yet."""
        if offset != self._offset or source != self._source:
            self._source, self._offset = source, offset
            self._rows.clear()
        elif row in self._rows:
            return False
        self._rows.add(row)
        return True


class _Windows:
    """The parts of row keys (``_Around``) for the windows of recent records, by start; a call with a start adds one."""

    def __init__(self, store: Store, size: int) -> None:
        self.known: dict[int, _Around] = {}
        self._rows = store.windowed.rows
        self._size = size

    def __call__(self, start: int) -> _Around:
        if len(self.known) >= _MOST_PLACES:
            self.known.clear()
        rows, before = self._rows, max(start - self._size, 0)
        first = rows.schema.first
        around = self.known[start] = rows.front(start), first(start), rows.front(before), first(before)
        return around
