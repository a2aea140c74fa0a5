"""Updates that come while a commit flushes belong to the next commit, and every look-up is true meanwhile."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.common.serdes import Serdes
from penstock.state.contracts import StateStoreContext, TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import TimestampedKeyValueStoreBuilder
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStateStore
from penstock.state.write_buffer.in_steps import sort_in_steps
from penstock.state.write_buffer.write_buffer import FLUSH_STEP_ENTRIES, WriteBuffer

BUILDER = TimestampedKeyValueStoreBuilder("store", Serdes.bytes(), Serdes.string())
Model = dict[bytes, str | None]


@pytest.fixture(params=["rocksdb", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> TaskStores:
    return open_task_stores(tmp_path / "db" if request.param == "rocksdb" else None, [BUILDER])


def rows(stores: TaskStores) -> Model:
    return {key: row[8:].decode() for key, row in stores.store("store").scan(None, None)}


def a_buffer(stores: TaskStores, caching: bool, logged: list[tuple[bytes, str | None]]) -> WriteBuffer:
    def log(key: bytes, value: bytes | None, timestamp: int) -> None:
        logged.append((key, None if value is None else value.decode()))

    opened = BUILDER.open(StateStoreContext(stores.store("store"), log, caching, lambda: 0, lambda: None))
    buffer = opened.buffer  # type: ignore[attr-defined]  # a key-value store's
    assert isinstance(buffer, WriteBuffer)
    return buffer


def without_deletions(model: Model) -> Model:
    return {key: value for key, value in model.items() if value is not None}


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_updates_and_lookups_between_the_steps_of_a_flush_leave_its_snapshot_as_it_was(
    stores: TaskStores, seed: int, caching: bool
) -> None:
    print(f"seed {seed}")
    random, logged = Random(seed), []  # type: ignore[var-annotated]
    buffer = a_buffer(stores, caching, logged)
    keys = [b"%05d" % number for number in range(3 * FLUSH_STEP_ENTRIES)]
    model: Model = {}

    def update(times: int) -> None:
        for _ in range(times):
            key = random.choice(keys)
            if random.random() < 0.5:
                assert (buffer.dirty.get(key) or buffer.load_to_update(key))[0] == model.get(key)
            model[key] = None if random.random() < 0.2 else f"{random.random()}"
            buffer.put(key, model[key], 1, None)

    def look() -> None:
        for key in random.sample(keys, 20):
            entry = buffer.dirty.get(key) or buffer.clean.get(key) or buffer.load(key)
            assert entry[0] == model.get(key), key
            found = buffer.peek(key)
            assert found is None or found[0] == model.get(key), key
        buffer.prefetch(random.sample(keys, 50))
        if random.random() < 0.1:
            buffer.drop_unused()
        if random.random() < 0.2:
            seen = {key: entry[0] for key, entry in buffer.scan(None, None)}
            assert seen == without_deletions(model)

    for _ in range(6):
        update(random.choice([1, 100, 3000]))
        snapshot, committed, logged_until = dict(model), rows(stores), len(logged)
        batch = stores.new_batch()
        buffer.freeze()
        update(random.choice([0, 5]))
        for _ in buffer.flush(batch):
            update(random.choice([0, 1, 200]))
            look()
            assert rows(stores) == committed, "nothing is written before the batch is"
        if caching:
            reported = dict(logged[logged_until:])
            assert all(snapshot[key] == value for key, value in reported.items()), "the changelog hears of the snapshot"
        stores.write(batch, {"store": 1})
        assert rows(stores) == without_deletions(snapshot)
        update(random.choice([0, 10]))
        look()
        buffer.batch_written()
        look()
        assert rows(stores) == without_deletions(snapshot)
    stores.close()


def test_only_frozen_updates_are_flushed(stores: TaskStores) -> None:
    logged: list[tuple[bytes, str | None]] = []
    buffer = a_buffer(stores, True, logged)
    buffer.put(b"a", "1", 1, None)
    buffer.freeze()
    assert buffer.flushed_resident_bytes() > 0
    buffer.put(b"b", "2", 1, None)
    batch = stores.new_batch()
    list(buffer.flush(batch))
    assert logged == [(b"a", "1")]
    assert list(buffer.dirty) == [b"b"]
    stores.write(batch, {})
    buffer.batch_written()
    assert buffer.flushed_resident_bytes() == 0
    assert rows(stores) == {b"a": "1"}
    stores.close()


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 20_000])
def test_sorting_in_steps_sorts(count: int) -> None:
    random = Random(count)
    items = [random.randrange(10**6) for _ in range(count)]
    expected = sorted(items, key=lambda item: -item)
    steps = sum(1 for _ in sort_in_steps(items, lambda item: -item))
    assert items == expected
    assert steps == (1 if count <= 4096 else count // 4096 + (count % 4096 > 0) + 1)


def test_rows_that_are_put_in_order_are_all_put_and_deleted(stores: TaskStores) -> None:
    batch = stores.new_batch()
    values: dict[bytes, bytes | None] = {b"%d" % number: bytes(8) + b"%d" % number for number in range(5000)}
    list(batch.put_all("store", values))
    stores.write(batch, {})
    batch = stores.new_batch()
    list(batch.put_all("store", {b"7": None, b"10": bytes(8) + b"new"}))
    stores.write(batch, {})
    expected: Model = {key: value[8:].decode() for key, value in values.items() if value is not None}
    assert rows(stores) == {**{key: value for key, value in expected.items() if key != b"7"}, b"10": "new"}
    stores.close()


@pytest.mark.parametrize("how", ["load", "load_to_update", "scan"])
def test_a_value_changed_in_place_beside_a_commit_is_committed_as_it_was(stores: TaskStores, how: str) -> None:
    """Rule 1 of PROGRAMS.md forbids it, but it must not lose records, whose offsets this commit covers."""
    builder = TimestampedKeyValueStoreBuilder("store", Serdes.bytes(), Serdes.json())
    opened = builder.open(StateStoreContext(stores.store("store"), None, True, lambda: 0, lambda: None))
    buffer = opened.buffer  # type: ignore[attr-defined]  # a key-value store's
    buffer.put(b"k", ["a"], 1, None)
    batch = stores.new_batch()
    buffer.freeze()
    entry = dict(buffer.scan(None, None))[b"k"] if how == "scan" else getattr(buffer, how)(b"k")
    entry[0].append("b")
    buffer.put(b"k", entry[0], 2, None)
    for _ in buffer.flush(batch):
        pass
    stores.write(batch, {})
    buffer.batch_written()
    assert rows(stores) == {b"k": '["a"]'}
    assert buffer.get(b"k")[0] == ["a", "b"]


def test_a_freeze_that_found_nothing_leaves_what_comes_then_to_the_next_commit(stores: TaskStores) -> None:
    logged: list[tuple[bytes, str | None]] = []
    buffer = a_buffer(stores, True, logged)
    batch = stores.new_batch()
    buffer.freeze()
    buffer.put(b"key", "later", 1, None)
    for _ in buffer.flush(batch):
        pass
    stores.write(batch, {})
    buffer.batch_written()
    assert (rows(stores), logged, list(buffer.dirty)) == ({}, [], [b"key"])
    batch = stores.new_batch()
    for _ in buffer.flush(batch):
        pass
    stores.write(batch, {})
    assert (rows(stores), logged) == ({b"key": "later"}, [(b"key", "later")])


def test_the_order_of_windows_by_time_is_of_the_same_commit_as_their_rows(tmp_path: Path) -> None:
    builder = TimestampedWindowStoreBuilder(
        "store", Serdes.bytes(), Serdes.string(), retention_ms=60_000, window_size_ms=10, by_time=True
    )
    stores = open_task_stores(tmp_path / "db", [builder])
    store = builder.open(StateStoreContext(stores.store("store"), None, False, lambda: 0, lambda: None))
    assert isinstance(store, WindowStateStore)

    def commit(meanwhile: list[int]) -> set[bytes]:
        """Commits; returns the keys of the new window's rows that are on disk then. The first byte is their kind."""
        batch = stores.new_batch()
        store.freeze()
        for _ in store.flush(batch):
            for start in meanwhile:
                store.put(b"new", "later", start, start)
            meanwhile = []
        stores.write(batch, {})
        store.batch_written()
        return {key for key, _ in stores.store("store").scan(None, None) if b"new" in key}

    store.put(b"old", "1", 10, 10)
    commit([])
    store.put(b"old", "2", 10, 10)  # whose place in the order is known
    assert commit([20]) == set(), "neither the window that came meanwhile nor its place"
    assert len(commit([])) == 2
    stores.close()
