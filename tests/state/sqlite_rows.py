"""A store whose rows lie in SQLite: the example of docs/STORES.md for a database that a builder brings."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock.common.errors import StateStoreError
from penstock.state.contracts import (
    CommitBatch,
    CommittedStore,
    StoreInFolder,
    TaskStores,
    no_such_store,
    scan_after_close,
)
from penstock.state.key_value.store import KeyValueStoreBuilder

_FILE = "rows.sqlite"


@dataclass(frozen=True)
class InSqlite(KeyValueStoreBuilder[Any, Any]):
    """A key-value store in SQLite."""

    @property
    @override
    def brings_database(self) -> bool:
        return True

    @override
    def open_database(self, folder: Path) -> TaskStores:
        return SqliteRows(folder / _FILE, self.name, self.layout)


class _Batch:
    def __init__(self, name: str) -> None:
        self.name = name
        self.statements: list[tuple[str, tuple[bytes, ...]]] = []

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self._add(store, "INSERT OR REPLACE INTO rows VALUES (?, ?)", key, row)

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        for key, row in rows.items():
            self.delete(store, key) if row is None else self.put(store, key, row)
        return iter(())

    def delete(self, store: str, key: bytes) -> None:
        self._add(store, "DELETE FROM rows WHERE key = ?", key)

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self._add(store, "DELETE FROM rows WHERE key >= ? AND key < ?", from_key, to_key)

    def _add(self, store: str, statement: str, *values: bytes) -> None:
        if store != self.name:
            raise no_such_store(store, [self.name])
        self.statements.append((statement, values))


class SqliteRows:
    """The rows of one store, with their changelog offset in the same database."""

    def __init__(self, file: Path, name: str, layout: str) -> None:
        self._file, self._name, self._layout = file, name, layout
        self._is_closed = False
        self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID")
        self._db.execute("CREATE TABLE IF NOT EXISTS changelog (one INTEGER PRIMARY KEY, next INTEGER)")

    # The rows: CommittedStore

    def get(self, key: bytes) -> bytes | None:
        found = self._ask("SELECT row FROM rows WHERE key = ?", key)
        return found[0][0] if found else None

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        bounds = {"key >= ?": from_key, "key <= ?": to_key}
        chosen = {text: key for text, key in bounds.items() if key is not None}
        where = f"WHERE {' AND '.join(chosen)}" if chosen else ""
        order = "DESC" if reverse else "ASC"
        return self._rows(self._ask(f"SELECT key, row FROM rows {where} ORDER BY key {order}", *chosen.values()))

    def _rows(self, rows: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for row in rows:
            if self._is_closed:
                raise scan_after_close(f"store {self._name!r} in {self._file}")
            yield row

    def approximate_num_entries(self) -> int:
        return int(self._ask("SELECT count(*) FROM rows")[0][0])

    def figures(self) -> Mapping[str, float]:
        return {"estimate-num-keys": self.approximate_num_entries()}

    # The database: TaskStores

    def store(self, name: str) -> CommittedStore:
        self._require(name)
        return self

    def new_batch(self) -> CommitBatch:
        self._require_open()
        return _Batch(self._name)

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _Batch)
        statements: list[tuple[str, tuple[Any, ...]]] = list(batch.statements)
        for name, offset in changelog_offsets.items():
            self._require(name)
            statements.append(("INSERT OR REPLACE INTO changelog VALUES (1, ?)", (offset,)))
        self._write(statements)

    def bulk_load(self, store: str) -> None:
        self._require(store)

    def changelog_offset(self, store: str) -> int | None:
        self._require(store)
        found = self._ask("SELECT next FROM changelog")
        return found[0][0] if found else None

    def wipe(self, store: str) -> None:
        self._require(store)
        self._write([("DELETE FROM rows", ()), ("DELETE FROM changelog", ())])

    def flush(self) -> None:
        self._require_open()
        with sqlite3.connect(self._file) as other:  # SQLite lets other threads run, and writes of others continue
            other.execute("PRAGMA wal_checkpoint(PASSIVE)")
        other.close()

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        self._require_open()
        folder.mkdir(parents=True)
        for name in (_FILE, f"{_FILE}-wal"):  # as a kill of the process would leave them: nothing writes meanwhile
            shutil.copyfile(self._file.with_name(name), folder / name)
        return {self._name: StoreInFolder(self._layout, self.changelog_offset(self._name))}

    def close(self) -> None:
        self._is_closed = True
        self._db.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StateStoreError(f"store {self._name!r} in {self._file} was used after its close")

    def _require(self, name: str) -> None:
        self._require_open()
        if name != self._name:
            raise no_such_store(name, [self._name])

    def _ask(self, statement: str, *values: bytes) -> list[Any]:
        self._require_open()
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StateStoreError(f"store {self._name!r} in {self._file}: {error}") from error

    def _write(self, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        try:
            self._db.execute("BEGIN")
            for statement, values in statements:
                self._db.execute(statement, values)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StateStoreError(f"store {self._name!r} in {self._file}: {error}") from error
