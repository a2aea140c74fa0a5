"""Stores in memory: a dict per store, restored from the changelog whenever the task starts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from weakref import WeakSet

from penstock.common.errors import StateStoreError, UnknownStateStoreError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommitBatch, CommittedStore

_MOVED_KEYS_KEPT = 4096


class InMemoryStore:
    """One store's rows. The order of keys is only worked out when someone scans."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[bytes, bytes] = {}
        self._sorted: list[bytes] = []
        self._changed_keys: set[bytes] = set()
        self._scans: WeakSet[_Scan] = WeakSet()
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        self._check_open()
        return list(map(self._rows.get, keys))

    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        keys = self._sorted_keys()
        start = 0 if from_key is None else bisect_left(keys, from_key)
        end = len(keys) if to_key is None else bisect_right(keys, to_key)
        chosen = keys[start:end]
        if reverse:
            chosen.reverse()
        scan = _Scan(self._name, chosen, self._rows)
        self._scans.add(scan)
        return scan

    def approximate_num_entries(self) -> int:
        self._check_open()
        return len(self._rows)

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Set rows, or with None delete them. Scans under way go on seeing what they saw."""
        self._check_open()
        for scan in self._scans:
            scan.freeze()
        rows, moved = self._rows, self._changed_keys
        for key, row in changes.items():
            if row is None:
                if rows.pop(key, None) is not None:
                    moved.add(key)
            else:
                if key not in rows:
                    moved.add(key)
                rows[key] = row
        if len(moved) > 2 * len(rows) + _MOVED_KEYS_KEPT:
            # Keys that are gone for good would pile up in a store that nobody scans: everything is sorted anew.
            self._sorted, self._changed_keys = [], set(rows)

    def clear(self) -> None:
        """Delete every row."""
        self.apply(dict.fromkeys(self._rows))

    def close(self) -> None:
        self._closed = True
        for scan in self._scans:
            scan.close()
        self._rows = {}

    def _sorted_keys(self) -> list[bytes]:
        if moved := self._changed_keys:
            # Two sorted runs: Python's sort merges them in linear time.
            self._sorted = [key for key in self._sorted if key not in moved]
            self._sorted.extend(sorted(key for key in moved if key in self._rows))
            self._sorted.sort()
            self._changed_keys = set()
        return self._sorted

    def _check_open(self) -> None:
        if self._closed:
            raise StateStoreError(f"store {self._name!r} (in memory) was used after its close")


class _Scan:
    """Rows in the order of ``keys``, read from the live dict until a write is about to change it."""

    def __init__(self, name: str, keys: list[bytes], rows: Mapping[bytes, bytes]) -> None:
        self._name = name
        self._keys = iter(keys)
        self._rows: Mapping[bytes, bytes] | None = rows
        self._frozen = False

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._rows is None:
            raise StateStoreError(f"a scan of store {self._name!r} (in memory) was read on after the store's close")
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


class _Batch:
    def __init__(self, stores: Iterable[str]) -> None:
        self.changes: dict[str, dict[bytes, bytes | None]] = _ByName((name, {}) for name in stores)

    def put(self, store: str, key: bytes, row: bytes) -> None:
        self.changes[store][key] = row

    def putter(self, store: str) -> Callable[[bytes, bytes], None]:
        return self.changes[store].__setitem__

    def delete(self, store: str, key: bytes) -> None:
        self.changes[store][key] = None

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        raise NotImplementedError


class _ByName(dict[str, dict[bytes, bytes | None]]):
    def __missing__(self, name: str) -> dict[bytes, bytes | None]:
        raise unknown_store(name, self)


def unknown_store(name: str, known: Iterable[str]) -> UnknownStateStoreError:
    """The error that names ``name`` and the stores that a task has."""
    return UnknownStateStoreError(f"the task has no store {name!r}; it has: {', '.join(sorted(known)) or 'none'}")


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
            self._stores[name].apply(changes)
        self._offsets.update(changelog_offsets)

    def changelog_offset(self, store: str) -> int | None:
        self._store(store)
        return self._offsets.get(store)

    def wipe(self, store: str) -> None:
        self._store(store).clear()
        self._offsets.pop(store, None)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _store(self, name: str) -> InMemoryStore:
        found = self._stores.get(name)
        if found is None:
            raise unknown_store(name, self._stores)
        return found
