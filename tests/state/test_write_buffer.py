"""The write buffer against a plain dict, with puts, reads, flushes, commits and restarts in any order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.common.errors import SerializationError
from penstock.common.records import Headers
from penstock.common.serdes import Serdes
from penstock.state.contracts import CommitBatch
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.rows.row_formats import TIMESTAMPED_VALUE, VALUE, RowFormat
from penstock.state.write_buffer import write_buffer
from penstock.state.write_buffer.sizes import CACHE_ENTRY_OVERHEAD_BYTES
from penstock.state.write_buffer.write_buffer import WriteBuffer
from tests.state.contexts import a_buffer, a_context
from tests.tiers import examples

KEYS = st.sampled_from([b"", b"a", b"ab", b"abc", b"b", b"\x00", b"\xff", b"\xff\xff"])
ENDS = st.none() | KEYS
VALUES = st.none() | st.sampled_from(["", "x", "yy", "é"])
TIMES = st.integers(min_value=0, max_value=2**40)

Rows = dict[bytes, tuple[str, int]]


def group_of(key: bytes) -> bytes:
    return key[:1]


class WriteBufferMachine(RuleBasedStateMachine):
    """``latest`` and ``committed`` are what the buffer must show; ``logged`` and ``heard`` what it must have sent."""

    @initialize(row_format=st.sampled_from([VALUE, TIMESTAMPED_VALUE]), caching=st.booleans(), old_values=st.booleans())
    def begin(self, row_format: RowFormat, caching: bool, old_values: bool) -> None:
        self.row_format = row_format
        self.stores = InMemoryTaskStores([KeyValueStoreBuilder("store")])
        self.caching, self.old_values = caching, old_values
        self.latest: Rows = {}
        self.committed: Rows = {}
        self.logged: dict[bytes, str | None] = {}
        self.updated: dict[bytes, None] = {}
        self.open()

    def open(self) -> None:
        self.buffer = a_buffer(self.stores.store("store"), Serdes.string(), self.log, self.caching, self.row_format)
        self.buffer.listen(self.on_flush, self.old_values)
        self.batch: CommitBatch | None = None
        self.steps: Iterator[None] | None = None
        self.heard: list[bytes] = []

    def log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.logged[key] = None if value is None else value.decode()

    def on_flush(self, key: bytes, new: str | None, old: str | None, timestamp: int, headers: Headers | None) -> None:
        self.heard.append(key)
        assert new == (self.latest[key][0] if key in self.latest else None)
        expected = self.committed[key][0] if key in self.committed else None
        assert old == (expected if self.old_values else None)
        assert new is not None or expected is not None, "a tombstone for what never was"

    def shown(self, timestamp: int) -> int:
        return timestamp if self.row_format.has_timestamp else -1

    @precondition(lambda self: self.steps is None)
    @rule(updates=st.lists(st.tuples(KEYS, VALUES, TIMES), min_size=1, max_size=10))
    def put(self, updates: list[tuple[bytes, str | None, int]]) -> None:
        for update in updates:
            self.put_one(*update)

    @precondition(lambda self: self.steps is None)
    @rule(key=KEYS, value=st.sampled_from(["xx", "yy"]), timestamp=TIMES)
    def write_directly(self, key: bytes, value: str, timestamp: int) -> None:
        if self.buffer.takes_direct_writes:
            self.put_one(key, value, timestamp, directly=True)

    def put_one(self, key: bytes, value: str | None, timestamp: int, directly: bool = False) -> None:
        if directly:
            self.buffer.load_to_update(key)
            self.buffer.dirty[key] = (value, timestamp, None, self.buffer.next_update_number())
        else:
            self.buffer.put(key, value, timestamp, None)
        self.updated.pop(key, None)
        self.updated[key] = None
        if value is None:
            self.latest.pop(key, None)
        else:
            self.latest[key] = (value, timestamp)
        if not self.caching:
            assert self.logged[key] == value

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        entry = self.buffer.get(key)
        expected = self.latest.get(key)
        assert (None if entry is None else entry[0]) == (None if expected is None else expected[0])
        if entry is not None and expected is not None and self.row_format.has_timestamp:
            assert entry[1] == expected[1]

    @rule(key=KEYS)
    def peek(self, key: bytes) -> None:
        entry = self.buffer.peek(key)
        expected = self.latest.get(key)
        if entry is not None:
            assert entry[0] == (None if expected is None else expected[0])
        else:
            assert self.committed.get(key) == (None if expected is None else (expected[0], self.shown(expected[1])))

    @rule(keys=st.lists(st.none() | KEYS, max_size=6))
    def prefetch(self, keys: list[bytes | None]) -> None:
        self.buffer.prefetch(keys)

    @rule(from_key=ENDS, to_key=ENDS, reverse=st.booleans(), committed=st.booleans())
    def scan(self, from_key: bytes | None, to_key: bytes | None, reverse: bool, committed: bool) -> None:
        model = self.committed if committed else self.latest
        inside = [k for k in model if (from_key is None or k >= from_key) and (to_key is None or k <= to_key)]
        expected = [(key, model[key][0]) for key in sorted(inside, reverse=reverse)]
        found = [(key, entry[0]) for key, entry in self.buffer.scan(from_key, to_key, reverse, committed)]
        assert found == expected
        for limit in range(len(expected) + 2):
            page = islice(self.buffer.scan(from_key, to_key, reverse, committed, limit), limit)
            assert [(key, entry[0]) for key, entry in page] == expected[:limit]

    @rule(name=st.sampled_from([b"a", b"b", b"c", b"\x00", b"\xff"]))
    def scan_group(self, name: bytes) -> None:
        found = [(key, entry[0]) for key, entry in self.buffer.scan_group(name, group_of)]
        expected = [(key, self.latest[key][0]) for key in sorted(self.latest) if group_of(key) == name]
        assert [(key, value) for key, value in found if group_of(key) == name] == expected
        assert len(found) <= len(expected) + 1

    @rule()
    def age(self) -> None:
        self.buffer.drop_unused()

    @rule()
    def forget_objects(self) -> None:
        self.buffer.forget_objects()

    @rule(key=KEYS)
    def load_to_update(self, key: bytes) -> None:
        """Loads as a read-modify-write operator does, whose update is then dropped."""
        if key not in self.buffer.dirty:
            expected = self.latest.get(key)
            assert self.buffer.load_to_update(key)[0] == (None if expected is None else expected[0])

    @precondition(lambda self: self.steps is None and self.updated)
    @rule()
    def begin_flush(self) -> None:
        self.heard = []
        self.batch = self.stores.new_batch()
        self.steps = self.buffer.flush(self.batch)

    @precondition(lambda self: self.steps is not None)
    @rule()
    def step(self) -> None:
        assert self.steps is not None
        next(self.steps, None)

    @precondition(lambda self: self.steps is not None)
    @rule()
    def commit(self) -> None:
        assert self.steps is not None
        assert self.batch is not None
        for _ in self.steps:
            pass
        assert not self.buffer.dirty
        self.stores.write(self.batch, {"store": 1})
        self.buffer.batch_written()
        assert not self.buffer._flushed, "what is committed is still held"
        self.steps = self.batch = None
        if self.caching:
            went = {key for key in self.updated if key not in self.latest and key not in self.committed}
            assert self.heard == [key for key in self.updated if key not in went]
            assert all(self.logged[key] == (self.latest[key][0] if key in self.latest else None) for key in self.heard)
        self.committed = {key: (value, self.shown(time)) for key, (value, time) in self.latest.items()}
        self.updated = {}

    @precondition(lambda self: self.updated)
    @rule(dies=st.integers(min_value=0, max_value=3))
    def restart(self, dies: int) -> None:
        """Ends the process now and then: what was not committed is gone, flushed or not."""
        if dies:
            return
        self.latest = dict(self.committed)
        self.updated = {}
        self.open()

    @invariant()
    def bytes_wait_only_where_updates_do(self) -> None:
        if hasattr(self, "buffer"):
            assert (self.buffer.dirty_cache_bytes() > 0) == bool(self.buffer.dirty)
            assert (self.buffer.dirty_resident_bytes() > 0) <= bool(self.buffer.dirty)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the flush give way at every second entry."""
    monkeypatch.setattr(write_buffer, "FLUSH_STEP_ENTRIES", 2)


TestAgainstADict = WriteBufferMachine.TestCase
TestAgainstADict.settings = settings(max_examples=examples(75), stateful_step_count=40)


def buffer_of(caching: bool, log: list[tuple[bytes, bytes | None, int]]) -> tuple[WriteBuffer, InMemoryTaskStores]:
    stores = InMemoryTaskStores([KeyValueStoreBuilder("store")])
    record = lambda key, value, timestamp: log.append((key, value, timestamp))  # noqa: E731
    return a_buffer(stores.store("store"), Serdes.string(), record, caching, TIMESTAMPED_VALUE), stores


def test_a_second_flush_in_one_commit_continues_from_the_first() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    heard: list[tuple[str | None, str | None]] = []
    buffer.listen(lambda key, new, old, timestamp, headers: heard.append((new, old)), old_values=True)
    batch = stores.new_batch()
    for value in ("one", "two", None):
        buffer.put(b"k", value, 1, None)
        list(buffer.flush(batch))
    assert heard == [("one", None), ("two", "one"), (None, "two")]
    stores.write(batch, {})
    assert stores.store("store").get(b"k") is None


@pytest.mark.parametrize("caching", [True, False])
def test_a_value_that_cannot_be_written_names_the_store(caching: bool) -> None:
    buffer, stores = buffer_of(caching, [])
    if not caching:
        with pytest.raises(SerializationError, match="store store: the value of key b'k'"):
            buffer.put(b"k", 7, 1, None)
        assert buffer.get(b"k") is None
        return
    buffer.put(b"k", 7, 1, None)
    with pytest.raises(SerializationError, match="store store: the value of key b'k'"):
        list(buffer.flush(stores.new_batch()))


def test_an_update_of_the_buffer_while_a_scan_is_under_way_is_not_seen_by_it() -> None:
    buffer, _ = buffer_of(caching=True, log=[])
    buffer.put(b"a", "1", 1, None)
    buffer.put(b"b", "2", 1, None)
    scan = buffer.scan(None, None)
    assert next(scan)[0] == b"a"
    buffer.put(b"b", "new", 2, None)
    buffer.put(b"c", "3", 2, None)
    assert [(key, entry[0]) for key, entry in scan] == [(b"b", "2")]


def test_kafka_streams_accounting_counts_key_value_and_overhead() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    buffer.put(b"key", "value", 1, None)
    first = buffer.dirty_cache_bytes()
    assert first == len(b"key") + len(b"value") + CACHE_ENTRY_OVERHEAD_BYTES
    buffer.put(b"yek", "eulav", 1, None)
    assert buffer.dirty_cache_bytes() == 2 * first
    list(buffer.flush(stores.new_batch()))
    assert buffer.dirty_cache_bytes() == 0


def test_an_update_that_is_dropped_halfway_loses_nothing_that_a_flush_under_way_holds() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    buffer.put(b"k", "flushed", 1, None)
    list(buffer.flush(stores.new_batch()))
    assert buffer.load_to_update(b"k")[0] == "flushed"
    peeked = buffer.peek(b"k")
    assert peeked is not None
    assert peeked[0] == "flushed"
    assert buffer.load(b"k")[0] == "flushed"


def test_a_value_of_an_earlier_commit_in_the_older_generation_does_not_reappear() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    for value in ("earlier", "later"):
        buffer.put(b"k", value, 1, None)
        batch = stores.new_batch()
        list(buffer.flush(batch))
        stores.write(batch, {})
        buffer.batch_written()
        if value == "earlier":
            buffer.drop_unused()
    assert buffer.load_to_update(b"k")[0] == "later"
    assert buffer.load(b"k")[0] == "later"


def commit(buffer: WriteBuffer, stores: InMemoryTaskStores) -> None:
    batch = stores.new_batch()
    list(buffer.flush(batch))
    stores.write(batch, {})
    buffer.batch_written()


def test_a_row_that_was_read_ahead_is_not_shown_once_a_commit_has_changed_it() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    buffer.put(b"k", "old", 1, None)
    commit(buffer, stores)
    buffer.forget_objects()
    buffer.prefetch([b"k"])
    buffer.put(b"k", "new", 2, None)  # by an operator that does not read before it writes
    batch = stores.new_batch()
    list(buffer.flush(batch))
    stores.write(batch, {})
    buffer.batch_written()
    buffer.clean.clear()  # as if there were no room for it
    buffer._older.clear()
    entry = buffer.get(b"k")
    assert entry is not None
    assert entry[0] == "new"


def test_a_range_while_a_commit_is_under_way_shows_the_keys_that_came_after_the_range_before() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    buffer.put(b"a", "1", 1, None)
    assert [key for key, _ in buffer.scan(None, None)] == [b"a"]
    buffer.put(b"b", "2", 1, None)
    steps = buffer.flush(stores.new_batch())
    next(steps)
    assert [key for key, _ in buffer.scan(None, None)] == [b"a", b"b"]


def test_each_listener_gets_each_flushed_update_in_turn_and_old_values_if_it_wants_them() -> None:
    buffer, stores = buffer_of(caching=True, log=[])
    heard: list[tuple[str, str | None, str | None]] = []
    buffer.listen(lambda key, new, old, timestamp, headers: heard.append(("first", new, old)), old_values=False)
    buffer.listen(lambda key, new, old, timestamp, headers: heard.append(("second", new, old)), old_values=True)
    for value in ("old", "new"):
        buffer.put(b"a", value, 1, None)
        commit(buffer, stores)
    assert heard[2:] == [("first", "new", None), ("second", "new", "old")]


@pytest.mark.parametrize("caching", [True, False])
def test_a_row_may_have_another_key_in_the_changelog(caching: bool) -> None:
    log: list[tuple[bytes, bytes | None, int]] = []
    stores = InMemoryTaskStores([KeyValueStoreBuilder("store")])
    context = a_context(stores.store("store"), lambda *record: log.append(record), caching)
    buffer = WriteBuffer("store", Serdes.string(), VALUE, context, front_bytes=2)
    buffer.put(b"7:a", "v", 1, None)
    commit(buffer, stores)
    assert log == [(b"a", b"v", 1)]
    assert stores.store("store").get(b"7:a") == b"v"


def test_entries_put_and_deleted_since_the_commit_take_no_memory_and_change_no_other_sizes() -> None:
    buffer = a_buffer(InMemoryTaskStores([KeyValueStoreBuilder("store")]).store("store"), Serdes.string())
    buffer.put(b"stays", "x", 0, None)
    for number in range(1000):
        buffer.put(b"%d" % number, "x" * 1000, 0, None)
        buffer.put(b"%d" % number, None, 0, None)
    assert list(buffer.dirty) == [b"stays"]
    assert buffer.dirty_cache_bytes() < 500
    assert [key for key, _ in buffer.scan(None, None)] == [b"stays"]


def test_a_deletion_is_kept_where_there_is_a_row_or_one_is_being_flushed() -> None:
    stores = InMemoryTaskStores([KeyValueStoreBuilder("store")])
    batch = stores.new_batch()
    batch.put("store", b"row", b"x")
    stores.write(batch, {})
    buffer = a_buffer(stores.store("store"), Serdes.string())
    buffer.put(b"flushed", "x", 0, None)
    buffer.freeze()
    buffer.put(b"stays", "x", 0, None)
    for key in (b"row", b"flushed"):
        buffer.put(key, "y", 0, None)
        buffer.put(key, None, 0, None)
    assert {key: entry[0] for key, entry in buffer.dirty.items()} == {b"stays": "x", b"row": None, b"flushed": None}
    assert [key for key, _ in buffer.scan(None, None)] == [b"stays"]


@pytest.mark.parametrize("caching", [False, True])
def test_only_a_buffer_that_caches_and_adds_nothing_to_put_takes_direct_writes(caching: bool) -> None:
    class Counting(WriteBuffer):
        def put(self, key: bytes, value: object, timestamp: int, headers: Headers | None) -> None: ...

    context = a_context(InMemoryTaskStores([KeyValueStoreBuilder("store")]).store("store"), caching=caching)
    plain, adding = (kind("store", Serdes.string(), VALUE, context) for kind in (WriteBuffer, Counting))
    assert (plain.takes_direct_writes, adding.takes_direct_writes) == (caching, False)
