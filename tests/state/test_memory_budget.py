"""What the stores of all tasks of a thread may hold in memory, and how large entries are taken to be."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from penstock.common.serdes import Serde, Serdes
from penstock.state.builders import StoreBuilder, StoreKind
from penstock.state.memory import InMemoryTaskStores
from penstock.state.memory_budget import MemoryBudget
from penstock.state.sizes import CACHE_ENTRY_OVERHEAD_BYTES, ENTRY_OVERHEAD_BYTES, object_bytes
from penstock.state.write_buffer import SAMPLE_EVERY, WriteBuffer


def buffer_of(serde: Serde[Any], caching: bool = True) -> tuple[WriteBuffer, InMemoryTaskStores]:
    builder = StoreBuilder("store", StoreKind.KEY_VALUE, Serdes.bytes(), serde)
    stores = InMemoryTaskStores([builder])
    return WriteBuffer(builder, stores.store("store"), lambda *_: None, caching), stores


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
    budget.add(buffer for buffer, _ in made)
    for round_number in range(20):
        for buffer, stores in made:
            put(buffer, round_number * 100, round_number * 100 + 100)
            commit(buffer, stores)
        budget.trim()
        assert sum(buffer.resident_bytes() for buffer, _ in made) <= limit
    assert any(buffer.resident_bytes() for buffer, _ in made)
    assert all(buffer.get(b"%08d" % number) for buffer, _ in made for number in range(2000))


def test_what_is_used_again_outlives_what_is_not() -> None:
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


def test_updates_that_are_too_many_by_themselves_are_told_and_gone_with_the_commit() -> None:
    buffer, stores = buffer_of(Serdes.string())
    budget = MemoryBudget(1 << 30, 100 * ENTRY_OVERHEAD_BYTES)
    budget.add([buffer])
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
    budget.add([buffer])
    put(buffer, 0, 50)
    assert not budget.needs_commit
    put(buffer, 50, 110)
    assert budget.needs_commit
    commit(buffer, stores)
    assert not budget.needs_commit


def test_a_closed_task_leaves_its_share_to_the_others() -> None:
    buffer, _ = buffer_of(Serdes.string())
    budget = MemoryBudget(1 << 30, 10 * ENTRY_OVERHEAD_BYTES)
    budget.add([buffer])
    put(buffer, 0, 100)
    budget.remove([buffer])
    assert not budget.needs_commit


@pytest.mark.parametrize("caching", [True, False])
def test_a_burst_of_large_values_is_counted_before_any_flush(caching: bool) -> None:
    """Found wrong: the mean of the last flush stood for all that came after it."""
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


def test_a_value_that_cannot_be_serialised_is_not_told_by_the_sample() -> None:
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
