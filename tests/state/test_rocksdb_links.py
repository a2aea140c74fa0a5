"""Copies of an open database, while RocksDB's own threads write, merge and delete its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock.common.errors import StateStoreError
from penstock.state.disk.rocksdb_links import copy_database
from penstock.state.disk.task_stores import open_task_stores
from tests.state.test_task_stores import builders, write
from tests.waiting import eventually

END_OF_TABLE = bytes.fromhex("f7cff485b741e288")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The files of a database with one table."""
    path = tmp_path / "database"
    path.mkdir()
    for name, content in {
        "CURRENT": b"MANIFEST-000005\n", "MANIFEST-000005": b"edits", "000004.log": b"rows", "000007.sst": b"in use",
        "OPTIONS-000008": b"options", "rocksdict-config.json": b"{}", "LOCK": b"", "LOG": b"", "000009.sst-rows": b"",
    }.items():  # fmt: skip
        (path / name).write_bytes(content)
    return path


def test_each_copy_is_the_database_as_of_one_commit_whatever_is_flushed_and_merged_meanwhile(tmp_path: Path) -> None:
    stores = open_task_stores(tmp_path / "task", builders("rocksdb"))
    stop = Event()

    def flush() -> None:
        while not stop.is_set():
            stores.flush()

    flushes = Thread(target=flush)
    flushes.start()
    try:
        for commit in range(60):
            rows: dict[bytes, bytes | None] = {b"%d" % (number % 150): b"%d" % commit for number in range(commit % 200)}
            write(stores, {"a": {b"last": b"%d" % commit, **rows}, "b": {b"last": b"%d" % commit}}, a=commit, b=commit)
            stores.checkpoint(tmp_path / str(commit))
    finally:
        stop.set()
        flushes.join()
    expected: dict[bytes, bytes] = {}
    for commit in range(60):
        expected |= {b"%d" % (number % 150): b"%d" % commit for number in range(commit % 200)}
        if commit % 6 == 5:
            copy = open_task_stores(tmp_path / str(commit), builders("rocksdb"))
            assert dict(copy.store("a").scan(None, None)) == {b"last": b"%d" % commit, **expected}
            assert dict(copy.store("b").scan(None, None)) == {b"last": b"%d" % commit}
            assert copy.changelog_offset("a") == commit
            copy.close()
    # RocksDB merges in threads of its own, which may be behind.
    eventually(lambda: len(list((tmp_path / "task" / "rocksdb").glob("*.sst"))) < 40, "tables were merged meanwhile")
    stores.close()


def test_only_tables_are_linked_and_what_rocksdb_may_still_change_is_copied(database: Path, tmp_path: Path) -> None:
    copy_database(database, tmp_path / "copy", lambda: {"000007.sst"})
    found = {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()}
    left_out = {"LOCK", "LOG", "000009.sst-rows"}
    assert found == {path.name: path.read_bytes() for path in database.iterdir() if path.name not in left_out}
    linked = {path.name for path in (tmp_path / "copy").iterdir() if path.samefile(database / path.name)}
    assert linked == {"000007.sst"}


def test_a_table_that_is_still_written_is_left_out_but_one_that_waits_for_its_use_is_not(
    database: Path, tmp_path: Path
) -> None:
    (database / "000010.sst").write_bytes(b"half")
    (database / "000011.sst").write_bytes(b"")
    (database / "000012.sst").write_bytes(b"whole" + END_OF_TABLE)
    copy_database(database, tmp_path / "copy", lambda: {"000007.sst"})
    assert {path.name for path in (tmp_path / "copy").glob("*.sst")} == {"000007.sst", "000012.sst"}


def append(database: Path) -> None:
    with (database / "MANIFEST-000005").open("ab") as manifest:
        manifest.write(b", more")


def replace_manifest(database: Path) -> None:
    (database / "MANIFEST-000006").write_bytes(b"all edits")
    (database / "CURRENT").write_bytes(b"MANIFEST-000006\n")
    (database / "MANIFEST-000005").unlink(missing_ok=True)


@pytest.mark.parametrize("change", [append, replace_manifest])
def test_a_copy_is_made_again_if_the_files_in_use_have_changed_meanwhile(
    change: Callable[[Path], None], database: Path, tmp_path: Path
) -> None:
    tables = iter([{"000007.sst"}, {"000012.sst"}])

    def live_tables() -> set[str]:
        found = next(tables)
        if found == {"000007.sst"}:
            change(database)
            (database / "000007.sst").unlink()
            (database / "000012.sst").write_bytes(b"merged")
        return found

    copy_database(database, tmp_path / "copy", live_tables)
    manifest = (tmp_path / "copy" / "CURRENT").read_text().strip()
    assert (tmp_path / "copy" / manifest).read_bytes() == (database / manifest).read_bytes()
    assert {path.name for path in (tmp_path / "copy").glob("*.sst")} == {"000012.sst"}


def test_a_copy_that_never_succeeds_is_an_error_and_leaves_no_folder(database: Path, tmp_path: Path) -> None:
    def live_tables() -> set[str]:
        append(database)
        return set()

    with pytest.raises(StateStoreError, match="have changed each of 50 times"):
        copy_database(database, tmp_path / "copy", live_tables)
    assert not (tmp_path / "copy").exists()
