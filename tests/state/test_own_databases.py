"""Stores whose builders bring a database, beside stores in RocksDB and in memory. SQLite stands for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.common.errors import StateStoreError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import destroy_task_stores, move_task_stores, open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder
from tests.state.sqlite_rows import InSqlite, SqliteRows
from tests.state.test_task_stores import builders, write

OWN = InSqlite("own")
ALL: list[AnyStoreBuilder] = [OWN, *builders("both")]
"""Its own database, RocksDB, memory."""
NAMES = [builder.name for builder in ALL]


def offsets(stores: TaskStores) -> list[int | None]:
    return [stores.changelog_offset(name) for name in NAMES]


@pytest.mark.parametrize("flushed", [True, False])
def test_a_checkpoint_has_the_database_too_as_of_the_last_write(flushed: bool, tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", ALL)
    write(stores, {name: {b"k": b"first"} for name in NAMES}, own=3, a=5, b=7)
    if flushed:
        stores.flush()
    found = stores.checkpoint(tmp_path / "checkpoint")
    assert {name: store.changelog_offset for name, store in found.items()} == {"own": 3, "a": 5}
    assert found["own"].layout == OWN.layout
    write(stores, {name: {b"k": b"second"} for name in NAMES}, own=4, a=6, b=8)
    stores.close()
    again = open_task_stores(tmp_path / "checkpoint", ALL)
    assert [again.store(name).get(b"k") for name in NAMES] == [b"first", b"first", None]
    assert offsets(again) == [3, 5, None]
    again.close()


def test_a_task_of_such_stores_alone_needs_no_rocksdb(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", [OWN])
    write(stores, {"own": {b"k": b"v"}}, own=1)
    stores.checkpoint(tmp_path / "checkpoint")
    stores.close()
    assert not (tmp_path / "task" / "rocksdb").exists()
    move_task_stores(tmp_path / "checkpoint", tmp_path / "task")
    again = open_task_stores(tmp_path / "task", [OWN])
    assert again.store("own").get(b"k") == b"v"
    again.close()


def test_stores_that_move_take_the_place_of_all_that_were_there(tmp_path: Path) -> None:
    for name in ("task", "fetched"):
        stores = open_task_stores(tmp_path / name, ALL)
        write(stores, {"own": {b"in": name.encode()}, "a": {b"in": name.encode()}}, own=1, a=1)
        stores.close()
    gone = open_task_stores(tmp_path / "task", [InSqlite("gone")])
    gone.close()
    destroy_task_stores(tmp_path / "task")
    assert list((tmp_path / "task").iterdir()) == []
    move_task_stores(tmp_path / "fetched", tmp_path / "task")
    stores = open_task_stores(tmp_path / "task", ALL)
    assert [stores.store(name).get(b"in") for name in ("own", "a")] == [b"fetched", b"fetched"]
    stores.close()


def test_rows_of_another_layout_are_wiped_to_be_restored(tmp_path: Path) -> None:
    class InAnotherForm(InSqlite):
        @property
        def layout(self) -> str:
            return "another form"

    for builder, there in ((OWN, b"v"), (InAnotherForm("own"), None)):
        stores = open_task_stores(tmp_path, [OWN])
        write(stores, {"own": {b"k": b"v"}}, own=1)
        stores.close()
        stores = open_task_stores(tmp_path, [builder])
        assert stores.store("own").get(b"k") == there
        assert stores.changelog_offset("own") == (1 if there else None)
        stores.close()


def test_without_a_changelog_it_is_refused_because_two_databases_may_end_with_different_commits(
    tmp_path: Path,
) -> None:
    released = []
    with pytest.raises(StateStoreError, match="store 'own' brings a database of its own, but has no changelog"):
        open_task_stores(tmp_path, [*builders("rocksdb"), replace(OWN, logging=False)])
    stores = open_task_stores(tmp_path, builders("rocksdb"), lambda: released.append(True))  # nothing is left open
    stores.close()
    assert released == [True]


def test_a_crash_between_the_writes_of_two_databases_leaves_each_with_its_own_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = open_task_stores(tmp_path, ALL)
    write(stores, {"own": {b"k": b"1"}, "a": {b"k": b"1"}}, own=1, a=1)

    def crash(*_: object) -> None:
        raise StateStoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteRows, "write", crash)
        with pytest.raises(StateStoreError, match="the disk is full"):
            write(stores, {"own": {b"k": b"2"}, "a": {b"k": b"2"}}, own=2, a=2)
    stores.close()
    again = open_task_stores(tmp_path, ALL)
    assert [(again.store(name).get(b"k"), again.changelog_offset(name)) for name in ("own", "a")] == [
        (b"1", 1),
        (b"2", 2),
    ]
    again.close()


def test_locks_are_released_once_when_all_databases_are_closed(tmp_path: Path) -> None:
    released = []
    stores = open_task_stores(tmp_path, ALL, lambda: released.append(True))
    stores.close()
    stores.close()
    assert released == [True]


def test_a_builder_that_promises_a_database_and_brings_none_is_named(tmp_path: Path) -> None:
    class Forgotten(KeyValueStoreBuilder[bytes, bytes]):
        @property
        def brings_database(self) -> bool:
            return True

    with pytest.raises(NotImplementedError, match="the builder of store 'own' brings no database"):
        open_task_stores(tmp_path, [Forgotten("own")])
