"""The decision to keep in memory, or not, what a store's commits flush."""

from __future__ import annotations

from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.write_buffer.kept_entries import KeepFlushed
from penstock.state.write_buffer.write_buffer import WriteBuffer
from tests.state.contexts import a_buffer


class TestKeepFlushed:
    def test_flushed_entries_are_kept_while_memory_is_not_full(self) -> None:
        keep = KeepFlushed()
        assert all(keep.begin_flush(misses=1000 * n, updates=1000 * n) for n in range(50))

    def test_it_is_not_kept_for_some_commits_once_memory_was_full_of_what_nobody_asked_for(self) -> None:
        keep = KeepFlushed()
        keep.memory_was_full(misses=900, updates=1000)
        assert [keep.begin_flush(1000 + n, 1100 + n) for n in range(17)] == [False] * 16 + [True]

    def test_it_is_kept_when_one_key_of_eight_came_again(self) -> None:
        keep = KeepFlushed()
        keep.memory_was_full(misses=875, updates=1000)
        assert keep.begin_flush(875, 1000)

    def test_each_trial_is_judged_by_what_came_since_it_began(self) -> None:
        keep = KeepFlushed()
        keep.memory_was_full(misses=1000, updates=1000)
        for n in range(16):
            assert not keep.begin_flush(2000 + n, 2000 + n)
        assert keep.begin_flush(2015, 2015)
        keep.memory_was_full(misses=2015 + 100, updates=2015 + 1000)
        assert keep.begin_flush(2115, 3015), "nine of ten came again"

    def test_a_store_without_updates_continues_to_keep_entries(self) -> None:
        keep = KeepFlushed()
        keep.memory_was_full(misses=1000, updates=0)
        assert keep.begin_flush(1000, 1)


def a_round(buffer: WriteBuffer, stores: InMemoryTaskStores, keys: range) -> None:
    for number in keys:
        key = b"%08d" % number
        entry = buffer.dirty.get(key) or buffer.load_to_update(key)
        buffer.put(key, (entry[0] or 0) + 1, 1, None)
    batch = stores.new_batch()
    for _ in buffer.flush(batch):
        pass
    stores.write(batch, {})
    buffer.batch_written()


def test_a_buffer_whose_keys_do_not_come_again_keeps_none_when_memory_was_full() -> None:
    builder: AnyStoreBuilder = TimestampedKeyValueStoreBuilder("store", Serdes.string(), Serdes.long())
    stores = InMemoryTaskStores([builder])
    buffer = a_buffer(stores.store("store"), Serdes.long(), caching=True)
    a_round(buffer, stores, range(1000))
    assert len(buffer.clean) == 1000
    buffer.drop_unused()
    buffer.drop_unused()
    a_round(buffer, stores, range(1000, 2000))
    assert not buffer.clean
    for _ in range(17):
        a_round(buffer, stores, range(10))
    assert len(buffer.clean) == 10, "it is tried again"
    kept = buffer.get(b"%08d" % 3)
    assert kept is not None
    assert kept[0] == 18


def test_flushed_entries_that_are_not_kept_count_until_they_are_written() -> None:
    builder: AnyStoreBuilder = TimestampedKeyValueStoreBuilder("store", Serdes.string(), Serdes.long())
    stores = InMemoryTaskStores([builder])
    buffer = a_buffer(stores.store("store"), Serdes.long(), caching=True)
    a_round(buffer, stores, range(1000))
    buffer.drop_unused()
    buffer.drop_unused()
    for number in range(1000, 2000):
        buffer.put(b"%08d" % number, number, 1, None)
    waiting = buffer.resident_bytes()
    batch = stores.new_batch()
    for _ in buffer.flush(batch):
        assert buffer.resident_bytes() >= 0.9 * waiting
    assert not buffer.clean
    stores.write(batch, {})
    buffer.batch_written()
    assert buffer.resident_bytes() == 0
