"""Restores many rows of a store in RocksDB past its memtable, its log and its flushes: as files that it takes in.

Rows are gathered, then written to a file in the order of their keys, then the database takes the file in at once, over
all that the store has. Ranges that are deleted meanwhile are deleted from the database before that; rows gathered
before such a deletion do not get into the file.

The offset follows in a write of its own. A crash between the two leaves rows of records that are restored again, from
the same offset: each key ends with its last record, whatever it had in between, and a range that has expired once is
deleted again, or has nothing in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import override

from penstock.common.errors import UnknownStateStoreError
from penstock.state.contracts import BulkLoad, CommitBatch
from penstock.state.disk.gathered_rows import GatheredRows
from penstock.state.disk.rocksdb_errors import translated

_PUT_AT_ONCE = 4096
_MOST_FILES = 48  # a look-up reads each of them; a few more, and RocksDB would delay writes (see its options)
_FOLDER = "-restored"


class Database(Protocol):
    """The part of a task's stores that a load needs. The load must not keep anything of the database itself open."""

    def new_batch(self) -> CommitBatch:
        """An empty batch."""

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        """Apply ``batch``, with these offsets."""

    def open_table(self, path: Path) -> Any:
        """Returns a file into which rows are put as into a dictionary, in order, until its ``finish()``."""

    def ingest(self, store: str, table: Path) -> None:
        """Take in a file that is finished, and remove it."""

    def unsorted_files(self, store: str) -> int:
        """Returns the number of files that may all have the same keys: RocksDB merges them over time."""


class RocksDBBulkLoad(BulkLoad):
    """A load of ``store``, whose database is in ``path``. Files are next to that until they are taken in."""

    def __init__(self, store: str, path: Path, database: Database) -> None:
        self._store = store
        self._table = _folder(path) / f"{id(self)}.sst"
        self._database = database
        self._rows = GatheredRows()
        self._ranges: list[tuple[bytes, bytes]] = []

    @property
    @override
    def resident_bytes(self) -> int:
        resident: int = self._rows.resident_bytes
        return resident

    @property
    @override
    def must_wait(self) -> bool:
        return self._database.unsorted_files(self._store) >= _MOST_FILES

    @override
    def put(self, store: str, key: bytes, row: bytes) -> None:
        self._check(store)
        self._rows.add({key: row})

    @override
    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        self._check(store)
        self._rows.add(rows)
        return iter(())

    @override
    def delete(self, store: str, key: bytes) -> None:
        self._check(store)
        self._rows.add({key: None})

    @override
    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self._check(store)
        if from_key < to_key:
            self._rows.delete_range(from_key, to_key)
            kept = [known for known in self._ranges if known[0] < from_key or known[1] > to_key]
            self._ranges = [*kept, (from_key, to_key)]

    @override
    def write(self, changelog_offset: int) -> Iterator[None]:
        rows, self._rows = self._rows, GatheredRows()
        ranges, self._ranges = self._ranges, []
        with self._translated():
            self._table.parent.mkdir(exist_ok=True)
        writer, any_rows = self._database.open_table(self._table), False
        while self._write_some(rows, writer):
            any_rows = True
            yield
        if ranges:
            deletions = self._database.new_batch()
            for from_key, to_key in ranges:
                deletions.delete_range(self._store, from_key, to_key)
            self._database.write(deletions, {})
        if any_rows:  # a file without rows cannot be finished
            with self._translated():
                writer.finish()
            yield
            self._database.ingest(self._store, self._table)
        self._database.write(self._database.new_batch(), {self._store: changelog_offset})

    def _write_some(self, rows: GatheredRows, writer: Any) -> bool:
        with self._translated():
            some: bool = rows.write(writer, _PUT_AT_ONCE)
        return some

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of RocksDB, or of the file system
            raise translated(error, f"the rows restored to store {self._store!r} in {self._table}") from error

    def _check(self, store: str) -> None:
        if store != self._store:
            raise UnknownStateStoreError(f"this is a load of store {self._store!r}, not of {store!r}")


def remove_tables(path: Path) -> None:
    """Delete the files that unfinished loads have left next to the database in ``path``."""
    shutil.rmtree(_folder(path), ignore_errors=True)


def _folder(path: Path) -> Path:
    return path.with_name(path.name + _FOLDER)
