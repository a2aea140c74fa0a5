"""The stores of a task, each in RocksDB or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import BulkLoad, CommitBatch, CommittedStore, StoreInFolder, TaskStores, no_such_store
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.disk.rocksdb import RocksDBTaskStores, destroy


def open_task_stores(
    path: Path | None, builders: Iterable[AnyStoreBuilder], closed: Callable[[], object] = lambda: None
) -> TaskStores:
    """Open the stores of one task: persistent ones in RocksDB below ``path``, which belongs to this task alone, the
    others in memory. ``path`` None puts all in memory. ``closed`` is called when the persistent ones are closed. Raises
    like :class:`RocksDBTaskStores`.
    """
    chosen = list(builders)
    on_disk = [builder for builder in chosen if builder.persistent and path is not None]
    in_memory = [builder for builder in chosen if builder not in on_disk]
    if path is None or not on_disk:
        return InMemoryTaskStores(in_memory)
    database = RocksDBTaskStores(path / "rocksdb", on_disk, closed)
    if not in_memory:
        return database
    parts = {builder.name: database for builder in on_disk} | dict.fromkeys(
        (builder.name for builder in in_memory), InMemoryTaskStores(in_memory)
    )
    return _ComposedTaskStores(parts)


def destroy_task_stores(path: Path) -> None:
    """Delete what :func:`open_task_stores` has put below ``path``. Raises StateStoreLockedError if it is open."""
    destroy(path / "rocksdb")


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
    """A commit is atomic on disk; what is in memory has no crash to survive."""

    def __init__(self, parts: Mapping[str, TaskStores]) -> None:
        self._parts = parts
        self._distinct = {id(part): part for part in parts.values()}

    def store(self, name: str) -> CommittedStore:
        return self._part(name).store(name)

    def new_batch(self) -> CommitBatch:
        batches = {part: stores.new_batch() for part, stores in self._distinct.items()}
        return _ComposedBatch(batches, {name: id(part) for name, part in self._parts.items()})

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _ComposedBatch)
        for name in changelog_offsets:
            self._part(name)
        # The part on disk comes first: only there can a write fail.
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
        return {name: found for stores in self._distinct.values() for name, found in stores.checkpoint(folder).items()}

    def close(self) -> None:
        for stores in self._distinct.values():
            stores.close()

    def _part(self, name: str) -> TaskStores:
        part = self._parts.get(name)
        if part is None:
            raise no_such_store(name, self._parts)
        return part
