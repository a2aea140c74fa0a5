"""Stores in RocksDB: one database per task, one column family per store, one for changelog offsets.

Only this file and the file of its options know rocksdict. Raw mode, so that rows are the bytes they are. A commit is
one WriteBatch over all families with the offsets in it, so that after a crash rows and offsets are of the same commit.
The write-ahead log is on and unsynced: a killed process loses nothing; after a power cut the log is replayed up to its
first damaged record, which is an older commit with its older offset, and the tail of the changelog is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from rocksdict import (
    ColumnFamily,
    IngestExternalFileOptions,
    Rdict,
    SstFileWriter,
    WriteBatch,
)

from penstock.common.errors import StateStoreDiskError, StateStoreError
from penstock.common.log import logger
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.state.contracts import BulkLoad, CommitBatch, CommittedStore, StoreInFolder, no_such_store
from penstock.state.disk.bulk_load import RocksDBBulkLoad, remove_tables
from penstock.state.disk.cursor import Cursor
from penstock.state.disk.rocksdb_errors import Errors, require_sound, translated
from penstock.state.disk.rocksdb_links import copy_database
from penstock.state.disk.rocksdb_options import database_options, store_options
from penstock.state.disk.rocksdb_properties import DATABASE_STATISTICS, PROPERTIES, STALLED, stalled_ms
from penstock.state.write_buffer.in_steps import put_in_order

_OFFSETS = "offsets"
_STORE = "store:"
# Stored with the offsets, whose keys are the names of stores: none has a colon.
_LAYOUT = b"layout:"
# In place of a store's offset from the beginning of a wipe to its end.
_WIPING = b""

T = TypeVar("T")


class RocksDBStore:
    """The committed rows of one store: a column family."""

    def __init__(self, name: str, errors: Errors, family: Rdict) -> None:
        self._what = f"store {name!r} in {errors.path}"
        self._errors = errors
        self._family: Rdict | None = family
        self._get: Callable[[Any], Any] = family.get
        self._scans: WeakSet[Cursor] = WeakSet()

    def get(self, key: bytes) -> bytes | None:
        try:
            row: bytes | None = self._get(key)
        except StateStoreError:
            raise
        except Exception as error:
            raise self._errors.noted(error, self._what) from error
        return row

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        try:
            rows: list[bytes | None] = self._get(keys)
        except StateStoreError:
            raise
        except Exception as error:
            raise self._errors.noted(error, self._what) from error
        return rows

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # The cursor is made here, not at the first row: it sees the store as it is now.
        cursor = Cursor(self._what, self._open_family().iter(), from_key, to_key, reverse, self._errors.noted)
        self._scans.add(cursor)
        return cursor.rows()

    def approximate_num_entries(self) -> int:
        return self._open_family().property_int_value("rocksdb.estimate-num-keys") or 0

    def figures(self) -> Mapping[str, float]:
        # A third of a microsecond each; the statistics take some 20.
        family = self._open_family()
        ask, stalled = family.property_int_value, stalled_ms(family.property_value(DATABASE_STATISTICS))
        figures: dict[str, float] = {name: ask(f"rocksdb.{name}") or 0 for name in PROPERTIES}
        figures["num-open-iterators"] = len(self._scans)
        return figures if stalled is None else {**figures, STALLED: stalled}

    def ingest(self, table: Path) -> None:
        """Take in the rows of a file, which is moved: they take precedence over all that were there before."""
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            self._open_family().ingest_external_file([str(table)], options)
        except StateStoreError:
            raise
        except Exception as error:
            raise self._errors.noted(error, self._what) from error

    def flush(self) -> None:
        """Write the rows that are only in memory to a file. Lets other threads run."""
        self._open_family().flush(True)

    def unsorted_files(self) -> int:
        """Returns the number of files of level 0."""
        return int(self._open_family().property_value("rocksdb.num-files-at-level0") or 0)

    def close(self) -> None:
        """Release every handle: each would keep the database open and locked."""
        self._family = None
        self._get = self._refuse
        for cursor in self._scans:
            cursor.close()

    def reopen(self, family: Rdict) -> None:
        """Switch to another column family: every holder of this store then sees it wiped."""
        self._family = family
        self._get = family.get

    def _open_family(self) -> Rdict:
        return self._family if self._family is not None else self._refuse(None)

    def _refuse(self, _: object) -> Any:
        raise StateStoreError(f"{self._what} was used after its close")


class _Handles(dict[str, ColumnFamily]):
    def __missing__(self, store: str) -> ColumnFamily:
        raise no_such_store(store, self)


class _Batch:
    __slots__ = ("_delete", "_handles", "_put", "raw")

    def __init__(self, handles: _Handles) -> None:
        self.raw = WriteBatch(raw_mode=True)
        self._handles = handles
        self._put = self.raw.put
        self._delete = self.raw.delete

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self._put(key, row, self._handles[store])

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        return put_in_order(list(rows), partial(self._put_rows, store, rows))

    def _put_rows(self, store: str, rows: dict[bytes, bytes | None], keys: list[bytes]) -> None:
        # The handle is none of the generator's variables: if that is abandoned, they would keep the database open.
        put, delete, handle = self._put, self._delete, self._handles[store]
        for key in keys:
            row = rows[key]
            if row is None:
                delete(key, handle)
            else:
                put(key, row, handle)

    def delete(self, store: str, key: bytes) -> None:
        self._delete(key, self._handles[store])

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        family = self._handles[store]
        if from_key < to_key:  # RocksDB takes the opposite for an error
            self.raw.delete_range(from_key, to_key, family)


class RocksDBTaskStores:
    """All persistent stores of a task in one database in ``path``, which is made if it is not there.

    A store that is new gets its column family; the family of one that the topology no longer has stays as it is.
    One whose rows have another form than its builder's is wiped, to be restored. Raises StateStoreLockedError if the
    database is open elsewhere, StateStoreCorruptError if it cannot be read, StateStoreError if a store would have to be
    wiped that has no changelog. ``closed`` is called when the database is closed.
    """

    def __init__(
        self, path: Path, builders: Iterable[AnyStoreBuilder], closed: Callable[[], object] = lambda: None
    ) -> None:
        self._path, self._what = path, f"the stores in {path}"
        chosen = list(builders)
        self._names = [builder.name for builder in chosen]
        self._layouts = {builder.name: builder.layout for builder in chosen}
        self._errors = Errors(path, all(map(is_restorable, chosen)))
        self._closed = closed
        self._db: Rdict | None = self._guarded(lambda: _open(path, [_STORE + name for name in self._names]))
        remove_tables(path)  # RocksDB's lock is held: no other process writes such files
        self._stores: dict[str, RocksDBStore] = {}
        self._handles = _Handles()
        self._offsets = self._guarded(lambda: self._database().get_column_family(_OFFSETS))
        self._offsets_handle = self._guarded(lambda: self._database().get_column_family_handle(_OFFSETS))
        try:
            for name in self._names:
                self._attach(name)
                if self._offsets.get(name.encode()) == _WIPING:
                    self._finish_wipe(name)
            for builder in chosen:
                self._guarded(partial(self._check_layout, builder))
        except StateStoreError:
            self._close()
            raise

    def store(self, name: str) -> CommittedStore:
        self._database()
        if name not in self._stores:
            raise no_such_store(name, self._names)
        return self._stores[name]

    def new_batch(self) -> CommitBatch:
        self._database()
        return _Batch(self._handles)

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _Batch)
        database = self._database()
        for name, offset in changelog_offsets.items():
            self.store(name)
            batch.raw.put(name.encode(), offset.to_bytes(8, "big"), self._offsets_handle)
        self._guarded(lambda: database.write(batch.raw))

    def bulk_load(self, store: str) -> BulkLoad:
        self.store(store)
        return RocksDBBulkLoad(store, self._path, self)

    def open_table(self, path: Path) -> SstFileWriter:
        """Returns a file of rows for :meth:`ingest`; they are put in order, then it is finished."""
        writer = SstFileWriter(store_options())
        self._guarded(lambda: writer.open(str(path)))
        return writer

    def ingest(self, store: str, table: Path) -> None:
        """Take the rows of ``table`` into ``store``, and remove the file."""
        self._database()
        self._stores[store].ingest(table)

    def unsorted_files(self, store: str) -> int:
        """Returns the number of files of ``store`` that are not merged with all others yet."""
        self._database()
        return self._stores[store].unsorted_files()

    def changelog_offset(self, store: str) -> int | None:
        self.store(store)
        stored: bytes | None = self._guarded(lambda: self._offsets.get(store.encode()))
        return None if stored is None else int.from_bytes(stored, "big")

    def wipe(self, store: str) -> None:
        self.store(store)
        self._guarded(lambda: self._offsets.put(store.encode(), _WIPING))
        self._finish_wipe(store)

    def flush(self) -> None:
        self._database()
        for store in self._stores.values():
            self._guarded(store.flush)
        self._guarded(lambda: self._offsets.flush(True))

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        database = self._database()
        target = folder / self._path.name
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise StateStoreDiskError(f"the checkpoint folder {folder} cannot be made: {error}") from error
        self._guarded(lambda: copy_database(self._path, target, lambda: _live_tables(database)))
        return {name: StoreInFolder(self._layouts[name], self.changelog_offset(name)) for name in self._names}

    def close(self) -> None:
        if self._db is not None:
            try:
                self._close()
            finally:
                self._closed()

    def _close(self) -> None:
        database, self._db = self._database(), None
        for store in self._stores.values():
            store.close()
        self._stores.clear()
        self._handles.clear()
        del self._offsets, self._offsets_handle
        self._guarded(database.close)

    def _check_layout(self, builder: AnyStoreBuilder) -> None:
        """Wipe the store if its rows have another format. If no format was noted yet, the rows are kept."""
        key, layout = _LAYOUT + builder.name.encode(), builder.layout
        noted = self._offsets.get(key)
        if noted == layout.encode():
            return
        if noted is not None:
            if not is_restorable(builder):
                raise StateStoreError(
                    f"the rows of store {builder.name!r} in {self._path} have the format ({noted.decode()}), but the "
                    f"program expects ({layout}), and the store has no changelog to be restored from. Change the store "
                    f"back, rename it, or delete the directory while the application is stopped"
                )
            logger(__name__).warning(
                "the format of the store has changed: it is wiped, and restored from its changelog",
                store=builder.name,
                path=str(self._path),
                was=noted.decode(),
                now=layout,
            )
            self.wipe(builder.name)
        self._offsets.put(key, layout.encode())

    def _attach(self, name: str) -> None:
        database = self._database()
        family = self._guarded(lambda: database.get_column_family(_STORE + name))
        if name in self._stores:
            self._stores[name].reopen(family)
        else:
            self._stores[name] = RocksDBStore(name, self._errors, family)
        self._handles[name] = self._guarded(lambda: database.get_column_family_handle(_STORE + name))

    def _finish_wipe(self, name: str) -> None:
        """Drop and recreate the family: this works whatever state its files are in, and costs the same for any number
        of rows."""
        database = self._database()
        self._stores[name].close()
        self._handles.pop(name)
        self._guarded(lambda: database.drop_column_family(_STORE + name))
        self._guarded(lambda: database.create_column_family(_STORE + name, store_options()))
        self._attach(name)
        self._guarded(lambda: self._offsets.delete(name.encode()))

    def _database(self) -> Rdict:
        if self._db is None:
            raise StateStoreError(f"{self._what} were used after their close")
        return self._db

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except StateStoreError:
            raise
        except Exception as error:
            raise self._errors.noted(error, self._what) from error


def destroy(path: Path) -> None:
    """Delete the database in ``path``, if there is one. Raises StateStoreLockedError if it is open anywhere."""
    if not (path / "LOCK").exists():
        return
    try:
        Rdict.destroy(str(path), database_options())
    except Exception as error:
        raise translated(error, f"the stores in {path}") from error


def _live_tables(database: Rdict) -> set[str]:
    return {file["name"].removeprefix("/") for file in database.live_files()}


def _open(path: Path, families: list[str]) -> Rdict:
    require_sound(path)
    existing: list[str] = []
    if (path / "CURRENT").exists():
        existing = Rdict.list_cf(str(path), database_options())
    path.mkdir(parents=True, exist_ok=True)
    options = database_options()
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    wanted = {*existing, *families, _OFFSETS} - {"default"}
    families_options = {name: database_options() if name == _OFFSETS else store_options() for name in sorted(wanted)}
    return Rdict(str(path), options, column_families=families_options)
