"""The memory that the stores of all tasks of a thread may hold, and the size that entries are taken to have."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import pytest

from penstock.common.serdes import Serde, Serdes
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.state.write_buffer.prefetched_rows import MOST_PREFETCHED_BYTES
from penstock.state.write_buffer.sizes import (
    CACHE_ENTRY_OVERHEAD_BYTES,
    ENTRY_OVERHEAD_BYTES,
    SAMPLE_EVERY,
    object_bytes,
)
from penstock.state.write_buffer.write_buffer import WriteBuffer
from tests.state.contexts import a_buffer, a_store_over


def buffer_of(serde: Serde[Any], caching: bool = True) -> tuple[WriteBuffer, InMemoryTaskStores]:
    builder = KeyValueStoreBuilder("store", Serdes.bytes(), serde)
    stores = InMemoryTaskStores([builder])
    return a_buffer(stores.store("store"), serde, lambda *_: None, caching), stores


def commit(buffer: WriteBuffer, stores: InMemoryTaskStores) -> None:
    batch = stores.new_batch()
    for _ in buffer.flush(batch):
        pass
    stores.write(batch, {})
    buffer.batch_written()


def put(buffer: WriteBuffer, begin: int, end: int, value: Any = "v") -> None:
    for number in range(begin, end):
        buffer.put(b"%08d" % number, value, 0, None)


def test_committed_entries_of_all_stores_together_stay_below_the_limit() -> None:
    made = [buffer_of(Serdes.string()) for _ in range(4)]
    limit = 1000 * (ENTRY_OVERHEAD_BYTES + 100)
    budget = MemoryBudget(1 << 30, limit)
    budget.add(a_store_over(buffer) for buffer, _ in made)
    for round_number in range(20):
        for buffer, stores in made:
            put(buffer, round_number * 100, round_number * 100 + 100)
            commit(buffer, stores)
        budget.trim()
        assert sum(buffer.resident_bytes() for buffer, _ in made) <= limit
    assert any(buffer.resident_bytes() for buffer, _ in made)
    assert all(buffer.get(b"%08d" % number) for buffer, _ in made for number in range(2000))


def test_entries_that_are_used_again_outlive_those_that_are_not() -> None:
    buffer, stores = buffer_of(Serdes.string())
    put(buffer, 0, 10)
    commit(buffer, stores)
    buffer.drop_unused()
    used = buffer.get(b"%08d" % 3)
    buffer.drop_unused()
    assert used is not None
    assert buffer.load(b"%08d" % 3) is used
    assert buffer.load(b"%08d" % 4) is not used
    assert buffer.misses == 1


def test_updates_that_are_too_many_by_themselves_are_reported_and_gone_with_the_commit() -> None:
    buffer, stores = buffer_of(Serdes.string())
    budget = MemoryBudget(1 << 30, 100 * ENTRY_OVERHEAD_BYTES)
    budget.add([a_store_over(buffer)])
    put(buffer, 0, 50)
    budget.trim()
    assert not budget.needs_commit
    put(buffer, 50, 150)
    budget.trim()
    assert budget.needs_commit
    commit(buffer, stores)
    assert not budget.needs_commit


def test_updates_need_a_commit_too_when_a_cache_of_kafka_streams_would_be_full() -> None:
    buffer, stores = buffer_of(Serdes.string())
    budget = MemoryBudget(100 * CACHE_ENTRY_OVERHEAD_BYTES, 1 << 30)
    budget.add([a_store_over(buffer)])
    put(buffer, 0, 50)
    assert not budget.needs_commit
    put(buffer, 50, 110)
    assert budget.needs_commit
    commit(buffer, stores)
    assert not budget.needs_commit


def test_a_closed_task_leaves_its_share_to_the_others() -> None:
    buffer, _ = buffer_of(Serdes.string())
    budget = MemoryBudget(1 << 30, 10 * ENTRY_OVERHEAD_BYTES)
    store = a_store_over(buffer)
    budget.add([store])
    put(buffer, 0, 100)
    budget.remove([store])
    assert not budget.needs_commit


@pytest.mark.parametrize("caching", [True, False])
def test_a_burst_of_large_values_is_counted_before_any_flush(caching: bool) -> None:
    """Found wrong: the mean of the last flush was used for all that came after it."""
    buffer, stores = buffer_of(Serdes.string(), caching)
    put(buffer, 0, 10_000)
    commit(buffer, stores)
    put(buffer, 0, SAMPLE_EVERY * 8, "x" * 100_000)
    assert buffer.dirty_cache_bytes() > SAMPLE_EVERY * 8 * 100_000 / 4
    assert buffer.dirty_resident_bytes() > SAMPLE_EVERY * 8 * 100_000 / 4


def test_small_values_after_large_ones_are_counted_small_again_after_a_flush_or_two() -> None:
    buffer, stores = buffer_of(Serdes.string())
    put(buffer, 0, 1000, "x" * 100_000)
    commit(buffer, stores)
    for _ in range(2):
        put(buffer, 0, 1000)
        commit(buffer, stores)
    put(buffer, 0, 1000)
    assert buffer.dirty_cache_bytes() < 1000 * 2 * (8 + 1 + CACHE_ENTRY_OVERHEAD_BYTES)


def test_the_sample_of_sizes_accepts_values_that_cannot_be_serialised() -> None:
    buffer, _ = buffer_of(Serdes.string())
    put(buffer, 0, SAMPLE_EVERY * 2, 7)
    assert len(buffer.dirty) == SAMPLE_EVERY * 2


def test_rows_that_are_only_read_count_with_the_objects_they_are_decoded_to() -> None:
    buffer, stores = buffer_of(Serdes.json())
    value = {"name": "n", "numbers": [1000 + n for n in range(100)]}
    put(buffer, 0, 100, value)
    commit(buffer, stores)
    buffer.forget_objects()
    assert buffer.resident_bytes() == 0
    for number in range(100):
        buffer.load(b"%08d" % number)
    assert buffer.resident_bytes() > 100 * 100 * sys.getsizeof(1000)


def test_an_object_counts_with_all_it_refers_to_but_types_and_functions() -> None:
    class Plain:
        def __init__(self) -> None:
            self.text = "x" * 1000
            self.call = print

    assert 1000 < object_bytes(Plain()) < 3000
    shared = "y" * 1000
    assert object_bytes([shared, shared]) < 2000
    many = [1000 + number for number in range(100_000)]
    assert 0.7 < object_bytes(many) / (sys.getsizeof(many) + 28 * len(many)) < 1.5
    assert object_bytes(None) == 0


SMALL, HUGE = "v", "x" * 100_000


def held(buffer: WriteBuffer) -> float:
    """Returns what the values in ``dirty`` truly take."""
    return sum(len(value) for value, *_ in buffer.dirty.values())


def assert_about(buffer: WriteBuffer, factor: float = 2) -> None:
    true = held(buffer)
    for counted in (buffer.dirty_cache_bytes(), buffer.dirty_resident_bytes()):
        assert true / factor < counted < true * factor, f"{true:,.0f} wait, {counted:,.0f} are counted"


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("period", [2, 4, 32])
def test_sizes_that_alternate_are_counted_as_they_are(caching: bool, phase: int, period: int) -> None:
    """Found wrong: every 32nd update was measured, and that was always a small one, or always a large one."""
    buffer, _ = buffer_of(Serdes.string(), caching)
    for number in range(4000):
        put(buffer, number, number + 1, HUGE if number % period == phase else SMALL)
    assert_about(buffer)


@pytest.mark.parametrize("caching", [True, False])
def test_large_values_of_new_keys_count_however_often_a_few_small_ones_were_updated_before(caching: bool) -> None:
    """Found wrong: the mean was of updates, and was used for keys."""
    buffer, _ = buffer_of(Serdes.string(), caching)
    for number in range(30_000):
        put(buffer, number % 10, number % 10 + 1, SMALL)
    put(buffer, 10, 1010, HUGE)
    assert_about(buffer)
    for number in range(30_000):
        put(buffer, number % 10, number % 10 + 1, SMALL)
    assert_about(buffer)


def test_many_keys_that_grow_while_they_wait_are_counted_as_large_as_they_are() -> None:
    buffer, _ = buffer_of(Serdes.string())
    for value in (SMALL, HUGE, HUGE, HUGE):
        put(buffer, 0, 2000, value)
    assert_about(buffer)


def test_a_few_keys_that_grow_among_many_are_counted() -> None:
    buffer, _ = buffer_of(Serdes.string())
    put(buffer, 0, 1000)
    for _ in range(500):
        put(buffer, 500, 505, HUGE * 20)
    assert_about(buffer)
    for _ in range(2000):
        put(buffer, 500, 505, SMALL)
    assert buffer.dirty_resident_bytes() < 1000 * 2 * (ENTRY_OVERHEAD_BYTES + sys.getsizeof(SMALL))


def test_an_object_that_grows_in_place_is_counted_as_large_as_it_is() -> None:
    buffer, _ = buffer_of(Serdes.json())
    lists: list[list[str]] = [[] for _ in range(50)]
    for number in range(20_000):
        lists[number % 50].append(SMALL * 1000)
        buffer.put(b"%d" % (number % 50), lists[number % 50], 0, None)
    true = 20_000 * 1000
    assert true / 2 < buffer.dirty_cache_bytes() < true * 2


@pytest.mark.parametrize("phase", [0, 1])
def test_rows_of_alternating_sizes_that_are_only_read_are_counted_as_they_are(phase: int) -> None:
    buffer, stores = buffer_of(Serdes.string())
    for number in range(4000):
        put(buffer, number, number + 1, HUGE if number % 2 == phase else SMALL)
    commit(buffer, stores)
    buffer.forget_objects()
    for number in range(4000):
        buffer.load(b"%08d" % number)
    true = 2000 * len(HUGE)
    assert true / 2 < buffer.resident_bytes() < true * 2


def test_small_rows_that_are_read_last_do_not_hide_the_large_ones_that_are_kept() -> None:
    buffer, stores = buffer_of(Serdes.string())
    put(buffer, 0, 1000, HUGE)
    put(buffer, 1000, 4000)
    commit(buffer, stores)
    buffer.forget_objects()
    for number in range(4000):
        buffer.load(b"%08d" % number)
    true = 1000 * len(HUGE)
    assert true / 2 < buffer.resident_bytes() < true * 2
    buffer.drop_unused()
    for number in range(1000, 4000):
        buffer.load(b"%08d" % number)
    assert buffer.resident_bytes() > true / 2


class Unmeasurable:
    """A value whose size cannot be measured."""

    def __init__(self, size: int | None) -> None:
        self.size = size

    def __sizeof__(self) -> int:
        if self.size is None:
            raise RuntimeError("no size")
        return self.size


class Referent:
    """An object to which a weak reference may refer."""


OPAQUE: Serde[Any] = Serde("opaque", lambda value: b"12345678", lambda data: data)


def dead_proxy() -> object:
    """Acts as a weak proxy whose object is gone: every call raises."""
    return weakref.proxy(Referent())


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("value", [Unmeasurable(None), Unmeasurable(-1), [Unmeasurable(None)], [dead_proxy()]])
def test_a_value_that_cannot_be_measured_counts_as_overhead_and_is_put_all_the_same(caching: bool, value: Any) -> None:
    """Found wrong: it was in the changelog, and then measuring it failed the record before it was in the store."""
    buffer, _ = buffer_of(OPAQUE, caching)
    put(buffer, 0, 4 * SAMPLE_EVERY, value)
    assert len(buffer.dirty) == 4 * SAMPLE_EVERY
    assert buffer.dirty_resident_bytes() >= 4 * SAMPLE_EVERY * ENTRY_OVERHEAD_BYTES


def test_an_object_that_all_values_share_does_not_count_with_each() -> None:
    """Found wrong: a model that each value refers to filled the budget with a few entries, and each round committed."""

    class Scored:
        def __init__(self, model: object) -> None:
            self.model = model

    model = bytes(100_000_000)
    buffer, _ = buffer_of(OPAQUE)
    budget = MemoryBudget(0, 48 << 20)
    budget.add([a_store_over(buffer)])
    for number in range(5000):
        put(buffer, number, number + 1, Scored(model))
    assert not budget.needs_commit


def test_rows_that_were_read_ahead_and_never_asked_for_are_bounded_and_count_until_there_is_need_of_room() -> None:
    """Found wrong: they were in no budget, and as many as 8,192 of any size stayed until the commit."""
    buffer, stores = buffer_of(Serdes.string())
    put(buffer, 0, 1000, HUGE)
    commit(buffer, stores)
    buffer.forget_objects()
    most = 0.0
    for begin in range(0, 1000, 100):
        buffer.prefetch([b"%08d" % number for number in range(begin, begin + 100)])
        true = sum(len(row) for row in buffer._disk.prefetched.rows.values() if row is not None)
        assert true <= buffer.resident_bytes() <= true * 2
        most = max(most, true)
    assert 0 < most < MOST_PREFETCHED_BYTES + 2 * len(HUGE)
    budget = MemoryBudget(0, 1000)
    budget.add([a_store_over(buffer)])
    budget.trim()
    assert buffer.resident_bytes() == 0
    assert not buffer._disk.prefetched.rows
