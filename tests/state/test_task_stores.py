"""One suite for every implementation of TaskStores: in memory, in RocksDB, both in one task, and in SQLite beside
RocksDB."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.errors import StateStoreError, UnknownStateStoreError
from penstock.state.contracts import TaskStores
from penstock.state.disk.memory import InMemoryStore
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder
from tests.state.sqlite_rows import InSqlite
from tests.tiers import examples

STORES = ("a", "b")
Model = dict[str, dict[bytes, bytes]]


def builders(kind: str, names: tuple[str, ...] = STORES) -> list[KeyValueStoreBuilder[bytes, bytes]]:
    if kind == "own":
        return [InSqlite(names[0]), *(KeyValueStoreBuilder[bytes, bytes](name) for name in names[1:])]
    persistent = {"memory": (), "rocksdb": names, "both": names[:1]}[kind]
    return [KeyValueStoreBuilder(name, persistent=name in persistent) for name in names]


@pytest.fixture(params=["memory", "rocksdb", "both", "own"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stores(kind: str, tmp_path: Path) -> Iterator[TaskStores]:
    opened = open_task_stores(tmp_path, builders(kind))
    yield opened
    opened.close()


def write(stores: TaskStores, rows: dict[str, dict[bytes, bytes | None]], **offsets: int) -> None:
    batch = stores.new_batch()
    for name, changes in rows.items():
        for key, row in changes.items():
            if row is None:
                batch.delete(name, key)
            else:
                batch.put(name, key, row)
    stores.write(batch, offsets)


keys = st.binary(max_size=3)
calls = st.lists(
    st.tuples(st.just("put"), keys, st.binary(max_size=2))
    | st.tuples(st.just("delete"), keys, st.none())
    | st.tuples(st.just("delete_range"), keys, keys),
    max_size=8,
)
commits = st.lists(
    st.dictionaries(
        st.sampled_from(STORES), st.dictionaries(keys, st.none() | st.binary(max_size=4), max_size=12), max_size=2
    ),
    max_size=6,
)
bounds = st.none() | keys


@pytest.mark.parametrize("kind", ["memory", "rocksdb", "both", "own"])
@given(commits=commits, from_key=bounds, to_key=bounds, asked=st.lists(keys, max_size=8), reopen=st.booleans())
@settings(max_examples=examples(30))
def test_a_store_answers_as_a_dict_would(
    kind: str,
    commits: list[dict[str, dict[bytes, bytes | None]]],
    from_key: bytes | None,
    to_key: bytes | None,
    asked: list[bytes],
    reopen: bool,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stores = open_task_stores(Path(directory), builders(kind))
        model: Model = {name: {} for name in STORES}
        for number, commit in enumerate(commits):
            write(stores, commit, a=number)
            for name, changes in commit.items():
                for key, row in changes.items():
                    model[name].pop(key, None) if row is None else model[name].update({key: row})
            compare(stores, model, from_key, to_key, asked)
        if reopen and kind in ("rocksdb", "own"):
            stores.close()
            stores = open_task_stores(Path(directory), builders(kind))
            compare(stores, model, from_key, to_key, asked)
            assert stores.changelog_offset("a") == (len(commits) - 1 if commits else None)
        stores.close()


def compare(stores: TaskStores, model: Model, from_key: bytes | None, to_key: bytes | None, asked: list[bytes]) -> None:
    for name, rows in model.items():
        store = stores.store(name)
        assert store.get_many(asked) == [rows.get(key) for key in asked]
        assert [store.get(key) for key in asked] == [rows.get(key) for key in asked]
        chosen = [
            (key, rows[key])
            for key in sorted(rows)
            if (from_key is None or key >= from_key) and (to_key is None or key <= to_key)
        ]
        assert list(store.scan(from_key, to_key)) == chosen
        assert list(store.scan(from_key, to_key, reverse=True)) == chosen[::-1]


@pytest.mark.parametrize("kind", ["memory", "rocksdb", "own"])
@given(
    batches=st.lists(calls, max_size=5),
    from_key=bounds,
    to_key=bounds,
    asked=st.lists(keys, max_size=8),
    wipe=st.booleans(),
)
@settings(max_examples=examples(50))
def test_the_calls_of_a_batch_take_effect_in_their_order(
    kind: str, batches: list[Any], from_key: bytes | None, to_key: bytes | None, asked: list[bytes], wipe: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stores = open_task_stores(Path(directory), builders(kind))
        rows: dict[bytes, bytes] = {}
        for number, batch in enumerate(batches):
            written = stores.new_batch()
            for call, first, second in batch:
                arguments = (first,) if second is None else (first, second)
                getattr(written, call)("a", *arguments)
                if call == "put":
                    rows[first] = second
                elif call == "delete":
                    rows.pop(first, None)
                else:
                    rows = {key: row for key, row in rows.items() if not first <= key < second}
            stores.write(written, {"a": number})
            compare(stores, {"a": rows, "b": {}}, from_key, to_key, asked)
        if wipe:
            stores.wipe("a")
            compare(stores, {"a": {}, "b": {}}, from_key, to_key, asked)
        elif kind in ("rocksdb", "own"):
            stores.close()
            stores = open_task_stores(Path(directory), builders(kind))
            compare(stores, {"a": rows, "b": {}}, from_key, to_key, asked)
        stores.close()


def test_a_range_is_deleted_with_the_rest_of_the_batch_in_every_store_and_scans_under_way_still_see_it(
    stores: TaskStores,
) -> None:
    for name in STORES:
        write(stores, {name: {b"%d" % number: b"old" for number in range(6)}})
        begun = stores.store(name).scan(None, None)
        batch = stores.new_batch()
        batch.put(name, b"2", b"put before")
        batch.delete_range(name, b"1", b"4")
        batch.put(name, b"3", b"put after")
        assert stores.store(name).get(b"1") == b"old"
        stores.write(batch, {})
        assert [key for key, _ in begun] == [b"%d" % number for number in range(6)]
        now = [(b"0", b"old"), (b"3", b"put after"), (b"4", b"old"), (b"5", b"old")]
        assert list(stores.store(name).scan(None, None)) == now
        assert list(stores.store(name).scan(b"1", b"4", reverse=True)) == now[2:0:-1]
        assert stores.store(name).get_many([b"1", b"2", b"3", b"4"]) == [None, None, b"put after", b"old"]


def test_a_batch_has_no_effect_before_it_is_written(stores: TaskStores) -> None:
    batch = stores.new_batch()
    batch.put("a", b"k", b"v")
    assert stores.store("a").get(b"k") is None
    stores.write(batch, {})
    assert stores.store("a").get(b"k") == b"v"


def test_a_long_scan_crosses_its_chunks_in_order(stores: TaskStores) -> None:
    rows = {b"%05d" % number: b"%d" % number for number in range(3000)}
    write(stores, {name: dict(rows) for name in STORES})
    for name in STORES:
        assert list(stores.store(name).scan(None, None)) == sorted(rows.items())
        assert len(list(stores.store(name).scan(b"01000", b"01999", reverse=True))) == 1000


def test_a_scan_sees_the_store_as_it_was_when_it_was_made(stores: TaskStores) -> None:
    for name in STORES:
        write(stores, {name: {b"1": b"old", b"2": b"old", b"3": b"old"}})
        begun, untouched = stores.store(name).scan(None, None), stores.store(name).scan(None, None)
        assert next(begun) == (b"1", b"old")
        write(stores, {name: {b"2": None, b"3": b"new", b"4": b"new"}})
        assert list(begun) == [(b"2", b"old"), (b"3", b"old")]
        assert list(untouched) == [(b"1", b"old"), (b"2", b"old"), (b"3", b"old")]


def test_keys_that_came_and_went_take_no_memory_even_if_nobody_scans() -> None:
    store = InMemoryStore("a")
    store.apply({b"stays": b"1"})
    assert [key for key, _ in store.scan(None, None)] == [b"stays"]
    for number in range(20_000):
        key = b"%d" % number
        store.apply({key: b"1"})
        store.apply({key: None})
    assert len(store._moved_keys) < 10_000
    store.apply({b"comes": b"2"})
    assert [key for key, _ in store.scan(None, None)] == [b"comes", b"stays"]


def test_offsets_are_unknown_at_first_and_kept_per_store(stores: TaskStores) -> None:
    assert [stores.changelog_offset(name) for name in STORES] == [None, None]
    write(stores, {}, a=0)
    write(stores, {"b": {b"k": b"v"}}, b=2**40)
    assert [stores.changelog_offset(name) for name in STORES] == [0, 2**40]


def test_offsets_in_memory_do_not_survive(kind: str, tmp_path: Path) -> None:
    first = open_task_stores(tmp_path, builders(kind))
    write(first, {}, a=7, b=8)
    first.close()
    again = open_task_stores(tmp_path, builders(kind))
    expected = {"memory": [None, None], "rocksdb": [7, 8], "both": [7, None], "own": [7, 8]}[kind]
    assert [again.changelog_offset(name) for name in STORES] == expected
    again.close()


def test_wiping_a_store_forgets_its_rows_and_offset_and_no_others(stores: TaskStores) -> None:
    write(stores, {name: {b"k": b"v"} for name in STORES}, a=1, b=2)
    for wiped, kept in (STORES, STORES[::-1]):
        held = stores.store(wiped)
        stores.wipe(wiped)
        assert held.get(b"k") is None
        assert stores.store(wiped).get(b"k") is None
        assert list(stores.store(wiped).scan(None, None)) == []
        assert stores.changelog_offset(wiped) is None
        assert stores.store(kept).get(b"k") == b"v"
        write(stores, {wiped: {b"k": b"v"}}, **{wiped: 3})
        assert stores.store(wiped).get(b"k") == b"v"


def test_a_store_the_task_does_not_have_is_named_with_those_it_has(stores: TaskStores) -> None:
    batch = stores.new_batch()
    for attempt in (
        lambda: stores.store("c"),
        lambda: stores.changelog_offset("c"),
        lambda: stores.wipe("c"),
        lambda: batch.put("c", b"k", b"v"),
        lambda: batch.delete("c", b"k"),
        lambda: batch.delete_range("c", b"k", b"l"),
        lambda: stores.write(stores.new_batch(), {"c": 1}),
    ):
        with pytest.raises(UnknownStateStoreError, match=r"'c'; it has: a, b"):
            attempt()


def test_the_number_of_entries_is_about_right(stores: TaskStores) -> None:
    write(stores, {name: {b"%d" % number: b"" for number in range(50)} for name in STORES})
    assert [stores.store(name).approximate_num_entries() for name in STORES] == [50, 50]


def test_use_after_close_is_an_error(stores: TaskStores) -> None:
    write(stores, {name: {b"k": b"v", b"l": b"v"} for name in STORES})
    held = [stores.store(name) for name in STORES]
    scans = [store.scan(None, None) for store in held]
    stores.close()
    stores.close()
    for store in held:
        for attempt in (
            lambda store=store: store.get(b"k"),
            lambda store=store: store.get_many([b"k"]),
            lambda store=store: store.scan(None, None),
            store.approximate_num_entries,
        ):
            with pytest.raises(StateStoreError, match="after its close"):
                attempt()
    for scan in scans:
        with pytest.raises(StateStoreError, match="used after its store was closed"):
            next(scan)


def test_without_a_directory_everything_is_in_memory() -> None:
    stores = open_task_stores(None, builders("rocksdb"))
    write(stores, {"a": {b"k": b"v"}})
    assert stores.store("a").get(b"k") == b"v"
    stores.close()
