"""Rows that are kept as bytes: both forms give back what was put last, or do not know the key; never anything else."""

from __future__ import annotations

import os
import shutil
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.write_buffer import kept_rows
from penstock.state.write_buffer.buffered_store import BufferedStateStore
from penstock.state.write_buffer.committed_rows import CommittedRows
from penstock.state.write_buffer.write_buffer import WriteBuffer
from tests.state.contexts import a_context

FORMS: list[Any] = [kept_rows.KeptRows, kept_rows._KeptRows]
UNKNOWN = object()


def test_with_a_compiler_the_compiled_form_is_in_use() -> None:
    compiler = shutil.which((os.environ.get("CC") or "cc").split()[0])
    assert FORMS[0] is not FORMS[1] or not compiler


class Bytes(bytes):
    """Bytes as a serde of the user's own may return them."""


KEYS = st.integers(0, 60).map(lambda number: b"key-%d" % number) | st.binary(max_size=3)
ROWS = st.none() | st.binary(max_size=40) | st.binary(max_size=5).map(Bytes)
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, ROWS)
    | st.tuples(st.just("put_some"), st.dictionaries(KEYS, ROWS, max_size=40), st.integers(1, 9))
    | st.tuples(st.just("discard_all"), st.lists(KEYS, max_size=10), st.none())
    | st.tuples(st.sampled_from(["drop_some", "clear"]), st.none(), st.none()),
    max_size=60,
)


@pytest.mark.parametrize("form", FORMS)
@given(steps=STEPS)
def test_a_key_has_the_row_that_was_put_last_or_is_not_known(form: Any, steps: list[tuple[str, Any, Any]]) -> None:
    kept, model = form(), dict[bytes, bytes | None]()
    for step, what, more in steps:
        if step == "put":
            kept.put(what, more)
            model[what] = more
        elif step == "put_some":
            position = kept.put_some(what, 0, more)
            while position:
                position = kept.put_some(what, position, more)
            model |= what
        elif step == "discard_all":
            kept.discard_all(what)
            model = {key: row for key, row in model.items() if key not in what}
        elif step == "drop_some":
            assert kept.drop_some() == bool(model)
            model = {key: row for key, row in model.items() if key in kept}
        else:
            kept.clear()
            model.clear()
        assert len(kept) == len(model)
        assert all(key in kept and kept.get(key, UNKNOWN) == row for key, row in model.items())
        assert kept.get(b"never put", UNKNOWN) is UNKNOWN
        assert bool(kept.resident_bytes) == bool(model)
    assert (kept.hits > 0) == any(step in ("put", "put_some") and (step == "put" or what) for step, what, _ in steps)


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 1 << 32))
def test_many_rows_come_and_go(form: Any, seed: int) -> None:
    random, kept, model = Random(seed), form(), dict[bytes, bytes | None]()
    for _ in range(8):
        rows = {b"user-%d" % random.randrange(2000): bytes(random.randrange(99)) for _ in range(500)}
        kept.put_some(rows, 0, len(rows) + 1)
        model |= rows
        kept.drop_some()
        gone = [b"user-%d" % random.randrange(2000) for _ in range(100)]
        kept.discard_all(gone)
        model = {key: row for key, row in model.items() if key in kept}
        assert not [key for key in gone if key in kept]
        assert all(kept.get(key, UNKNOWN) == row for key, row in model.items())
    while kept.drop_some():
        assert kept.resident_bytes or not len(kept)
    assert kept.resident_bytes == 0


@pytest.mark.parametrize("form", FORMS)
def test_they_take_less_than_entries_and_count_what_they_take(form: Any) -> None:
    kept = form()
    kept.put_some({b"key-%d" % number: bytes(100) for number in range(1000)}, 0, 1001)
    assert 1000 * 107 < kept.resident_bytes < 1000 * 107 + 1000 * 210
    kept.put_some({b"key-%d" % number: bytes(9) for number in range(1000)}, 0, 1001)
    assert kept.resident_bytes < 1000 * 16 + 1000 * 210


def test_the_compiled_form_keeps_what_was_used_since_rows_were_dropped_last() -> None:
    kept = FORMS[0]()
    if isinstance(kept, kept_rows._KeptRows):
        pytest.skip("it could not be compiled here")
    kept.put_some({b"key-%d" % number: bytes(100) for number in range(1000)}, 0, 1001)
    used = [b"key-%d" % number for number in range(0, 1000, 10)]
    for _ in range(10):
        for key in used:
            kept.get(key, None)
        kept.drop_some()
    assert len(kept) < 700
    assert all(key in kept for key in used)


# ---- in a store's buffer ----


class Store:
    """A buffer over rows in memory; a test sets when its memory is full."""

    def __init__(self) -> None:
        builder: AnyStoreBuilder = TimestampedKeyValueStoreBuilder("store", Serdes.string(), Serdes.string())
        self.stores = InMemoryTaskStores([builder])
        opened = builder.open(a_context(self.stores.store("store"), caching=True))
        assert isinstance(opened, BufferedStateStore)
        self.buffer: WriteBuffer = opened.buffer

    @property
    def disk(self) -> CommittedRows:
        return self.buffer._disk

    def put(self, numbers: range, value: str) -> None:
        for number in numbers:
            self.buffer.put(b"%d" % number, value, 1, None)

    def commit(self) -> None:
        batch = self.stores.new_batch()
        for _ in self.buffer.flush(batch):
            pass
        self.stores.write(batch, {})
        self.buffer.batch_written()

    def memory_is_full(self) -> None:
        while self.buffer.clean or self.buffer._older:
            self.buffer.drop_unused()

    def values(self, numbers: range) -> set[str]:
        entries = [self.buffer.get(b"%d" % number) for number in numbers]
        return {entry[0] for entry in entries if entry is not None}


def a_store_that_is_short_of_memory() -> Store:
    store = Store()
    store.put(range(100), "first")
    store.commit()
    store.memory_is_full()
    return store


def test_a_row_that_was_read_once_is_not_read_again_while_memory_is_short() -> None:
    store = a_store_that_is_short_of_memory()
    assert store.values(range(100)) == {"first"}
    assert store.buffer.misses == 100
    store.memory_is_full()
    assert store.values(range(100)) == {"first"}
    assert store.buffer.misses == 100


def test_rows_that_a_commit_flushes_are_kept_as_bytes_while_memory_is_short() -> None:
    store = a_store_that_is_short_of_memory()
    store.values(range(100))
    store.put(range(100), "second")
    store.commit()
    assert not store.buffer.clean
    assert store.values(range(100)) == {"second"}
    assert store.buffer.misses == 100


def test_rows_of_a_store_that_nobody_reads_are_not_kept() -> None:
    store = a_store_that_is_short_of_memory()
    store.put(range(100), "second")
    store.commit()
    assert not store.disk.kept


def test_a_row_that_is_flushed_and_not_kept_is_forgotten_if_an_older_one_was() -> None:
    store = a_store_that_is_short_of_memory()
    store.values(range(10))
    store.memory_is_full()
    for value in ("second", "third"):
        store.put(range(100), value)
        store.commit()
        store.memory_is_full()
        assert store.values(range(10)) == {value}


def test_entries_are_kept_again_when_memory_was_not_full_for_some_commits() -> None:
    store = a_store_that_is_short_of_memory()
    for _ in range(17):
        store.values(range(10))
        store.put(range(10), "again")
        store.commit()
    assert len(store.buffer.clean) == 10


def test_rows_that_are_kept_make_room_after_the_entries() -> None:
    store = a_store_that_is_short_of_memory()
    store.values(range(100))
    assert store.buffer.resident_bytes() > store.disk.resident_bytes > 0
    store.memory_is_full()
    assert store.buffer.resident_bytes() == store.disk.resident_bytes
    while store.buffer.drop_unused():
        pass
    assert store.buffer.resident_bytes() == 0
    assert store.values(range(100)) == {"first"}


def test_a_row_that_was_deleted_stays_deleted() -> None:
    store = a_store_that_is_short_of_memory()
    store.values(range(100))
    store.memory_is_full()
    for number in range(50):
        store.buffer.put(b"%d" % number, None, 2, None)
    store.commit()
    assert not store.values(range(50))
    assert store.values(range(50, 100)) == {"first"}
