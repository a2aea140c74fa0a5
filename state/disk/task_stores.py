"""The stores of a task, each in RocksDB, in a database that its builder brings, or in memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from penstock.common.errors import StateStoreError
from penstock.common.files import write_whole
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.state.contracts import BulkLoad, CommitBatch, CommittedStore, StoreInFolder, TaskStores, no_such_store
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.disk.rocksdb import RocksDBTaskStores, destroy

_ROCKSDB = "rocksdb"
_OWN, _LAYOUT = "own.", "layout."
"""The beginnings of the names of a folder with the database that a store's builder brings, and of the file that has the
layout of its rows. The name of the store follows."""


def open_task_stores(
    path: Path | None, builders: Iterable[AnyStoreBuilder], closed: Callable[[], object] = lambda: None
) -> TaskStores:
    """Open the stores of one task: persistent ones below ``path``, which belongs to this task alone, in RocksDB or in a
    database that their builder brings; the others in memory. ``path`` None puts all in memory. ``closed`` is called
    when the persistent ones are closed. Raises like :class:`RocksDBTaskStores`.
    """
    chosen = list(builders)
    on_disk = [builder for builder in chosen if builder.persistent and path is not None]
    in_memory = [builder for builder in chosen if builder not in on_disk]
    if path is None or not on_disk:
        return InMemoryTaskStores(in_memory)
    own = [builder for builder in on_disk if builder.brings_database]
    if not own and not in_memory:
        return RocksDBTaskStores(path / _ROCKSDB, on_disk, closed)
    parts: dict[str, TaskStores] = {}
    folders: dict[str, str] = {}
    with ExitStack() as opened:
        if in_rocksdb := [builder for builder in on_disk if builder not in own]:
            database = RocksDBTaskStores(path / _ROCKSDB, in_rocksdb)
            opened.callback(database.close)
            parts |= {builder.name: database for builder in in_rocksdb}
        for builder in own:
            folders[builder.name] = f"{_OWN}{builder.name}"
            parts[builder.name] = stores = _open_own(path / folders[builder.name], builder)
            opened.callback(stores.close)
        opened.pop_all()
    parts |= dict.fromkeys((builder.name for builder in in_memory), InMemoryTaskStores(in_memory))
    return _ComposedTaskStores(parts, folders, closed)


def _open_own(folder: Path, builder: AnyStoreBuilder) -> TaskStores:
    """Open the database that ``builder`` brings, and wipe its rows if they have another layout."""
    if not is_restorable(builder):
        raise StateStoreError(
            f"store {builder.name!r} brings a database of its own, but has no changelog: a crash in the middle of a "
            "commit could leave it behind the other stores for ever. Turn its logging on"
        )
    folder.mkdir(parents=True, exist_ok=True)
    stores = builder.open_database(folder)
    note = folder.with_name(_LAYOUT + builder.name)
    if not note.exists() or note.read_text() != builder.layout:
        if note.exists():
            stores.wipe(builder.name)
        write_whole(note, builder.layout)
    return stores


def destroy_task_stores(path: Path) -> None:
    """Delete what :func:`open_task_stores` has put below ``path``. Raises StateStoreLockedError if it is open."""
    destroy(path / _ROCKSDB)
    for found in _of_builders(path):
        _remove(found)


def move_task_stores(folder: Path, path: Path) -> None:
    """Move the stores in ``folder``, which are closed, to ``path``, where :func:`destroy_task_stores` has left none. A
    crash leaves whole stores, or none."""
    for there in (path / _ROCKSDB, *_of_builders(path)):
        _remove(there)
    for found in (folder / _ROCKSDB, *_of_builders(folder)):
        if found.exists():
            found.rename(path / found.name)


def _of_builders(path: Path) -> list[Path]:
    """Returns the databases that builders have brought, after the notes about their layouts."""
    return [*path.glob(f"{_LAYOUT}*"), *path.glob(f"{_OWN}*")]


def _remove(found: Path) -> None:
    if found.is_dir():
        shutil.rmtree(found, ignore_errors=True)
    else:
        found.unlink(missing_ok=True)


class _ComposedBatch:
    def __init__(self, batches: Mapping[int, CommitBatch], part_of: Mapping[str, int]) -> None:
        self.batches = batches
        self._of = {store: batches[part] for store, part in part_of.items()}

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self._batch(store).put(store, key, row)

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        return self._batch(store).put_all(store, rows)

    def delete(self, store: str, key: bytes) -> None:
        self._batch(store).delete(store, key)

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self._batch(store).delete_range(store, from_key, to_key)

    def _batch(self, store: str) -> CommitBatch:
        batch = self._of.get(store)
        if batch is None:
            raise no_such_store(store, self._of)
        return batch


class _ComposedTaskStores:
    """A commit is atomic in each database. After a crash between two, the offset of one is older: its store is restored
    from there. What is in memory has no crash to survive.

    ``parts``: the database of each store, in the order of their writes. ``folders``: where those lie that builders
    bring.
    """

    def __init__(
        self, parts: Mapping[str, TaskStores], folders: Mapping[str, str], closed: Callable[[], object]
    ) -> None:
        self._parts = parts
        self._distinct = {id(part): part for part in parts.values()}
        self._folders = {id(parts[name]): folder for name, folder in folders.items()}
        self._closed = closed

    def store(self, name: str) -> CommittedStore:
        return self._part(name).store(name)

    def new_batch(self) -> CommitBatch:
        batches = {part: stores.new_batch() for part, stores in self._distinct.items()}
        return _ComposedBatch(batches, {name: id(part) for name, part in self._parts.items()})

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _ComposedBatch)
        for name in changelog_offsets:
            self._part(name)
        # The parts on disk come first: only there can a write fail.
        for part, stores in self._distinct.items():
            own = {name: offset for name, offset in changelog_offsets.items() if id(self._parts[name]) == part}
            stores.write(batch.batches[part], own)

    def bulk_load(self, store: str) -> BulkLoad | None:
        return self._part(store).bulk_load(store)

    def changelog_offset(self, store: str) -> int | None:
        return self._part(store).changelog_offset(store)

    def wipe(self, store: str) -> None:
        self._part(store).wipe(store)

    def flush(self) -> None:
        for stores in self._distinct.values():
            stores.flush()

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        found: dict[str, StoreInFolder] = {}
        for part, stores in self._distinct.items():
            # RocksDB is first: it makes the folder.
            found |= stores.checkpoint(folder / own if (own := self._folders.get(part)) else folder)
        return found

    def close(self) -> None:
        with ExitStack() as all_of_them:
            all_of_them.callback(self._closed)
            self._closed = lambda: None
            for stores in self._distinct.values():
                all_of_them.callback(stores.close)

    def _part(self, name: str) -> TaskStores:
        part = self._parts.get(name)
        if part is None:
            raise no_such_store(name, self._parts)
        return part
