"""Many records are restored as files, and come out as if each had been put."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.common.errors import StateStoreError, UnknownStateStoreError
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import BulkLoad, CommittedStore, StateStore, StateStoreContext
from penstock.state.disk import bulk_load
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.windowed.keys import WindowKeySchema
from penstock.state.windowed.window_store import WindowStoreBuilder

ROOT = Path(__file__).resolve().parents[2]
STRINGS = (Serdes.string(), Serdes.string())
NAME = "store"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[RocksDBTaskStores]:
    opened = RocksDBTaskStores(tmp_path / "db", [KeyValueStoreBuilder(name, *STRINGS) for name in (NAME, "other")])
    yield opened
    opened.close()


def rows(stores: RocksDBTaskStores, name: str = NAME) -> dict[bytes, bytes]:
    return dict(stores.store(name).scan(None, None))


def write(load: BulkLoad, offset: int) -> None:
    for _ in load.write(offset):
        pass


def test_gathered_rows_are_written_at_once_over_the_earlier_ones(stores: RocksDBTaskStores) -> None:
    batch = stores.new_batch()
    for key in (b"a", b"b", b"c", b"x1", b"x2"):
        batch.put(NAME, key, b"old")
    stores.write(batch, {NAME: 5})
    load = stores.bulk_load(NAME)
    load.put_all(NAME, {b"b": b"new", b"c": None, b"x2": b"gone with the range"})
    load.delete_range(NAME, b"x", b"y")
    load.put(NAME, b"x3", b"put after the range was deleted")
    load.put(NAME, b"d", b"1")
    load.delete(NAME, b"d")
    assert rows(stores) == dict.fromkeys((b"a", b"b", b"c", b"x1", b"x2"), b"old")
    write(load, 12)
    assert rows(stores) == {b"a": b"old", b"b": b"new", b"x3": b"put after the range was deleted"}
    assert stores.changelog_offset(NAME) == 12
    assert rows(stores, "other") == {}


def test_a_load_continues_after_each_write(stores: RocksDBTaskStores, tmp_path: Path) -> None:
    load = stores.bulk_load(NAME)
    for offset in range(1, 6):
        load.put(NAME, b"last", b"%d" % offset)
        load.put(NAME, b"%d" % offset, b"")
        write(load, offset)
        assert load.resident_bytes == 0
    assert rows(stores) == {b"last": b"5"} | {b"%d" % offset: b"" for offset in range(1, 6)}
    assert [*tmp_path.rglob("*-restored/*")] == [], "the database has taken the files"


@pytest.mark.parametrize(
    "gathered", [lambda load: None, lambda load: (load.put(NAME, b"k", b"v"), load.delete_range(NAME, b"a", b"z"))]
)
def test_a_load_without_a_row_brings_the_offset_on(
    stores: RocksDBTaskStores, gathered: Callable[[BulkLoad], Any]
) -> None:
    batch = stores.new_batch()
    batch.put(NAME, b"untouched", b"")
    batch.put(NAME, b"zz", b"")
    stores.write(batch, {})
    load = stores.bulk_load(NAME)
    gathered(load)
    write(load, 7)
    assert stores.changelog_offset(NAME) == 7
    assert b"zz" in rows(stores)


def test_a_load_is_of_one_store(stores: RocksDBTaskStores) -> None:
    load = stores.bulk_load(NAME)
    with pytest.raises(UnknownStateStoreError, match="a load of store 'store', not of 'other'"):
        load.put("other", b"k", b"v")
    with pytest.raises(UnknownStateStoreError):
        stores.bulk_load("unknown")


def test_a_load_of_closed_stores_raises_an_error_and_keeps_nothing_open(
    stores: RocksDBTaskStores, tmp_path: Path
) -> None:
    load = stores.bulk_load(NAME)
    load.put_all(NAME, {b"%d" % number: b"" for number in range(10_000)})
    steps = load.write(1)
    next(steps)
    stores.close()
    again = RocksDBTaskStores(tmp_path / "db", [KeyValueStoreBuilder(NAME, *STRINGS)])
    assert rows(again) == {}
    assert again.changelog_offset(NAME) is None
    with pytest.raises(StateStoreError, match="used after their close"):
        list(steps)
    again.close()


def test_a_file_that_cannot_be_written_is_a_clear_error(stores: RocksDBTaskStores, tmp_path: Path) -> None:
    load = stores.bulk_load(NAME)
    load.put(NAME, b"k", b"v")
    bulk_load._folder(tmp_path / "db").write_text("no folder")
    with pytest.raises((StateStoreError, FileExistsError), match="restored"):
        write(load, 1)
    assert stores.changelog_offset(NAME) is None


def context(stores: Any) -> StateStoreContext:
    return StateStoreContext(stores.store(NAME), None, False, lambda: 0, lambda: None)


def restored(builder: AnyStoreBuilder, path: Path, gathered: bool) -> dict[bytes, bytes]:
    """The rows of a window store that got three records, of which the second one moves it on past the first."""
    schema, stores = WindowKeySchema(10), RocksDBTaskStores(path, [builder])
    store: StateStore = builder.open(context(stores))
    load = stores.bulk_load(NAME)
    for number, start in enumerate((0, 5_000_000, 5_000_001)):
        batch = load if gathered else stores.new_batch()
        store.restore(batch, [b"key" + schema.suffix(start, 0)], [b"%d" % start], [start])
        if not gathered:
            stores.write(batch, {NAME: number + 1})
    if gathered:
        write(load, 3)
    found = rows(stores)
    stores.close()
    return found


def test_rows_that_expired_before_they_were_written_are_not_in_the_store(tmp_path: Path) -> None:
    builder = WindowStoreBuilder(NAME, *STRINGS, retention_ms=60_000, window_size_ms=10, by_time=True)
    expected = restored(builder, tmp_path / "batches", gathered=False)
    assert len(expected) == 2 * 2 + 1, "a row and its place in the order of time, of two records, and the progress"
    assert restored(builder, tmp_path / "files", gathered=True) == expected


class Watched:
    """Committed rows; ``asked`` once anybody has asked for one."""

    def __init__(self, rows: CommittedStore) -> None:
        self._rows = rows
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        self.asked = True
        return getattr(self._rows, name)


@pytest.mark.parametrize(
    ("builder", "gathers"),
    [
        (KeyValueStoreBuilder(NAME, *STRINGS), True),
        (TimestampedKeyValueStoreBuilder(NAME, *STRINGS), True),
        (WindowStoreBuilder(NAME, *STRINGS, retention_ms=1000, window_size_ms=10), True),
        (TimestampedKeyValueStoreBuilder(NAME, *STRINGS).with_ttl(1000), False),
        (VersionedKeyValueStoreBuilder(NAME, *STRINGS, history_retention_ms=1000), False),
    ],
    ids=["plain", "timestamped", "window", "ttl", "versioned"],
)
def test_a_store_that_looks_at_its_rows_while_it_is_restored_gathers_none(
    builder: AnyStoreBuilder, gathers: bool, tmp_path: Path
) -> None:
    stores = RocksDBTaskStores(tmp_path, [builder])
    watched = Watched(stores.store(NAME))
    store = builder.open(StateStoreContext(cast(CommittedStore, watched), None, False, lambda: 0, lambda: None))
    assert store.restores_blindly is gathers
    store.continue_from(0)
    watched.asked = False
    key = b"key" + WindowKeySchema(10).suffix(5, 0)
    for value in (b"v", None):
        store.restore(stores.new_batch(), [key], [value], [7])
    assert watched.asked is not gathers
    stores.close()


def test_in_memory_there_is_nothing_to_gather() -> None:
    builder = KeyValueStoreBuilder(NAME, *STRINGS)
    assert open_task_stores(None, [builder]).bulk_load(NAME) is None


LOAD_FOR_EVER = """
import sys
from pathlib import Path
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
stores = RocksDBTaskStores(Path(sys.argv[1]), [KeyValueStoreBuilder("store")])
offset = stores.changelog_offset("store") or 0
load = stores.bulk_load("store")
while True:
    # Record n of the changelog says that key n % 100 is n, and every 50th deletes what begins with an x.
    for number in range(offset, offset + 1000):
        load.put("store", b"%d" % (number % 100), b"%d" % number)
        load.put("store", b"x%d" % (number % 50), b"%d" % number)
        if number % 50 == 49:
            load.delete_range("store", b"x", b"y")
    offset += 1000
    for _ in load.write(offset):
        pass
    print(offset, flush=True)
"""


def test_a_load_that_is_killed_has_all_records_in_front_of_its_offset(tmp_path: Path) -> None:
    reached = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", LOAD_FOR_EVER, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        for _ in range(3):
            message = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        stores = RocksDBTaskStores(tmp_path / "db", [KeyValueStoreBuilder(NAME, *STRINGS)])
        offset = stores.changelog_offset(NAME)
        assert offset is not None
        assert offset >= message > reached
        # Records behind the offset may be there: they are the next ones, of a file that was taken in.
        of_keys = {int(key): int(row) for key, row in rows(stores).items()}
        assert of_keys.keys() == set(range(100))
        assert all(row % 100 == key and offset - 100 <= row < offset + 1000 for key, row in of_keys.items())
        assert len({row >= offset for row in of_keys.values()}) == 1
        stores.close()
        reached = offset
