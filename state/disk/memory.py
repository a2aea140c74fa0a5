"""Stores in memory: a dict per store, restored from the changelog whenever the task starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from weakref import WeakSet

from penstock.common.errors import StateStoreError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import (
    BulkLoad,
    CommitBatch,
    CommittedStore,
    StoreInFolder,
    no_such_store,
    scan_after_close,
)
from penstock.state.write_buffer.ordered_keys import OrderedKeys

# Number of keys, in addition to as many as there are rows, that may wait to be put in order: if more do, all are sorted
# again.
_MOVED_KEYS_KEPT = 4096

Range = tuple[bytes, bytes]
"""(first key, the key after the last one)"""


class InMemoryStore:
    """One store's rows. The order of keys is only known if the store is scanned."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[bytes, bytes] = {}
        self._ordered: OrderedKeys | None = None
        self._moved_keys: set[bytes] = set()
        self._scans: WeakSet[_Scan] = WeakSet()
        self._scans_read_rows = False  # walking a WeakSet, even an empty one, costs as much as a commit of one row
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        if self._closed:
            self._check_open()
        return self._rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        self._check_open()
        return list(map(self._rows.get, keys))

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        scan = _Scan(self._name, self._ordered_keys().between(from_key, to_key, reverse), self._rows)
        self._scans.add(scan)
        self._scans_read_rows = True
        return scan

    def figures(self) -> Mapping[str, float]:
        return {"num-keys": len(self._rows)}

    def approximate_num_entries(self) -> int:
        self._check_open()
        return len(self._rows)

    def apply(self, changes: Mapping[bytes, bytes | None], deleted: Iterable[Range] = ()) -> None:
        """Delete the ranges, then set rows, or with None delete them. Scans under way still see what they saw."""
        self._check_open()
        if self._scans_read_rows:
            self._scans_read_rows = False
            for scan in self._scans:
                scan.freeze()
        for from_key, to_key in deleted:
            for key in self._ordered_keys().take_out(from_key, to_key):
                del self._rows[key]
        rows, moved = self._rows, self._moved_keys
        for key, row in changes.items():
            if row is None:
                if rows.pop(key, None) is not None:
                    moved.add(key)
            else:
                if key not in rows:
                    moved.add(key)
                rows[key] = row
        if self._ordered is None or len(moved) > len(rows) + _MOVED_KEYS_KEPT:
            self._ordered = None
            moved.clear()

    def clear(self) -> None:
        """Delete every row."""
        self.apply(dict.fromkeys(self._rows))

    def close(self) -> None:
        self._closed = True
        for scan in self._scans:
            scan.close()
        self._rows = {}
        self._ordered = None

    def _ordered_keys(self) -> OrderedKeys:
        if self._ordered is None:
            self._ordered = OrderedKeys(self._rows)
        elif moved := self._moved_keys:
            # A key that is a row may have been one before: it may have come back.
            self._ordered.discard(moved)
            self._ordered.add([key for key in moved if key in self._rows])
            self._moved_keys = set()
        return self._ordered

    def _check_open(self) -> None:
        if self._closed:
            raise StateStoreError(f"store {self._name!r} (in memory) was used after its close")


class _Scan:
    """Rows in the order of ``keys``, read from the live dict until a write is about to change it."""

    def __init__(self, name: str, keys: Iterator[bytes], rows: Mapping[bytes, bytes]) -> None:
        self._name = name
        self._keys = keys
        self._rows: Mapping[bytes, bytes] | None = rows
        self._frozen = False

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._rows is None:
            raise scan_after_close(f"store {self._name!r} (in memory)")
        key = next(self._keys)
        return key, self._rows[key]

    def freeze(self) -> None:
        if not self._frozen and self._rows is not None:
            rest = list(self._keys)
            self._rows = {key: self._rows[key] for key in rest}
            self._keys = iter(rest)
            self._frozen = True

    def close(self) -> None:
        self._rows = None


class _Changes:
    """The changes of a batch to one store: first whole ranges are deleted, then rows are set, or with None deleted."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.deleted: list[Range] = []

    def delete_range(self, from_key: bytes, to_key: bytes) -> None:
        if from_key < to_key:
            self.deleted.append((from_key, to_key))
            for key in [key for key in self.rows if from_key <= key < to_key]:
                del self.rows[key]


class _Batch:
    def __init__(self, stores: Collection[str]) -> None:
        self.changes: dict[str, _Changes] = _ByName(stores)

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self.changes[store].rows[key] = row

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        self.changes[store].rows.update(rows)
        return iter(())

    def delete(self, store: str, key: bytes) -> None:
        self.changes[store].rows[key] = None

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self.changes[store].delete_range(from_key, to_key)


class _ByName(dict[str, _Changes]):
    """Changes by store, only for the stores that the batch changes."""

    def __init__(self, stores: Collection[str]) -> None:
        super().__init__()
        self._stores = stores

    def __missing__(self, name: str) -> _Changes:
        if name not in self._stores:
            raise no_such_store(name, self._stores)
        changes = self[name] = _Changes()
        return changes


class InMemoryTaskStores:
    """All stores of a task, in memory. Changelog offsets live as long as the rows: until :meth:`close`."""

    def __init__(self, builders: Iterable[AnyStoreBuilder]) -> None:
        self._stores = {builder.name: InMemoryStore(builder.name) for builder in builders}
        self._offsets: dict[str, int] = {}

    def store(self, name: str) -> CommittedStore:
        return self._store(name)

    def new_batch(self) -> CommitBatch:
        return _Batch(self._stores)

    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _Batch)
        for name in changelog_offsets:
            self._store(name)
        for name, changes in batch.changes.items():
            self._stores[name].apply(changes.rows, changes.deleted)
        self._offsets.update(changelog_offsets)

    def bulk_load(self, store: str) -> BulkLoad | None:
        self._store(store)
        return None

    def changelog_offset(self, store: str) -> int | None:
        self._store(store)
        return self._offsets.get(store)

    def wipe(self, store: str) -> None:
        self._store(store).clear()
        self._offsets.pop(store, None)

    def flush(self) -> None:
        """Nothing is on disk."""

    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        return {}

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _store(self, name: str) -> InMemoryStore:
        found = self._stores.get(name)
        if found is None:
            raise no_such_store(name, self._stores)
        return found
