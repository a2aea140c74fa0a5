"""Checkpoints of a task's stores: hard links to all that was committed, which later commits do not change."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from penstock.common.errors import StateStoreDiskError, StateStoreError
from penstock.state.contracts import StoreInFolder, TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder
from tests.state.test_task_stores import STORES, builders, write
from tests.waiting import eventually

LAYOUT = KeyValueStoreBuilder[bytes, bytes]("a").layout


def rows(stores: TaskStores) -> list[dict[bytes, bytes]]:
    return [dict(stores.store(name).scan(None, None)) for name in STORES]


@pytest.mark.parametrize("flushed", [True, False])
def test_a_checkpoint_opens_as_the_stores_were_when_it_was_taken(flushed: bool, tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("rocksdb"))
    write(stores, {"a": {b"k": b"first"}, "b": {b"l": b"kept"}}, a=5)
    if flushed:
        stores.flush()
    found = stores.checkpoint(tmp_path / "checkpoint")
    assert found == {"a": StoreInFolder(LAYOUT, 5), "b": StoreInFolder(LAYOUT, None)}
    write(stores, {"a": {b"k": b"second", b"m": b"later"}, "b": {b"l": None}}, a=9, b=2)
    stores.flush()
    for name in STORES:
        stores.wipe(name)
    stores.close()

    again = open_task_stores(tmp_path / "checkpoint", builders("rocksdb"))
    assert rows(again) == [{b"k": b"first"}, {b"l": b"kept"}]
    assert [again.changelog_offset(name) for name in STORES] == [5, None]
    write(again, {"a": {b"n": b"goes on"}}, a=6)
    again.close()


def test_its_tables_are_hard_links_so_that_it_takes_no_room_and_no_time(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("rocksdb"))
    write(stores, {"a": {b"%d" % number: bytes(100) for number in range(1000)}})
    stores.flush()
    for number in range(3):
        stores.checkpoint(tmp_path / str(number))
    tables = list((tmp_path / "task" / "rocksdb").glob("*.sst"))
    assert tables
    for table in tables:
        assert (tmp_path / "2" / "rocksdb" / table.name).samefile(table)
    stores.close()


def test_what_is_in_memory_has_no_checkpoint(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("memory"))
    write(stores, {"a": {b"k": b"v"}}, a=1)
    stores.flush()
    assert stores.checkpoint(tmp_path / "checkpoint") == {}
    assert not (tmp_path / "checkpoint").exists()
    stores.close()

    both = open_task_stores(tmp_path / "both", builders("both"))
    write(both, {"a": {b"k": b"v"}, "b": {b"k": b"v"}}, a=1, b=2)
    both.flush()
    assert both.checkpoint(tmp_path / "of-both") == {"a": StoreInFolder(LAYOUT, 1)}
    both.close()
    again = open_task_stores(tmp_path / "of-both", builders("both"))
    assert rows(again) == [{b"k": b"v"}, {}]
    again.close()


def test_commits_go_on_while_another_thread_flushes(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("rocksdb"))
    rows = {b"%07d" % number: bytes(100) for number in range(100_000)}
    commits = 0

    def go_on() -> bool:
        """Returns True if more than ten commits fit into a flush: on a busy machine not into each, but into one."""
        nonlocal commits
        commits += 1
        write(stores, {"a": {**rows}}, a=commits)
        flush, before = Thread(target=stores.flush), commits
        flush.start()
        while flush.is_alive():
            commits += 1
            write(stores, {"a": {b"commits": b"%d" % commits}}, a=commits)
        flush.join()
        return commits - before > 10

    eventually(go_on, "more than ten commits during one flush", look_each_s=0)
    assert stores.checkpoint(tmp_path / "checkpoint")["a"].changelog_offset == commits
    stores.close()


def test_a_folder_that_is_there_already_is_not_touched(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("rocksdb"))
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(StateStoreDiskError, match="checkpoint cannot be made"):
        stores.checkpoint(tmp_path / "checkpoint")
    assert list((tmp_path / "checkpoint").iterdir()) == []
    stores.close()
    for call in (stores.flush, lambda: stores.checkpoint(tmp_path / "other")):
        with pytest.raises(StateStoreError, match="after their close"):
            call()
    assert not (tmp_path / "other").exists()
