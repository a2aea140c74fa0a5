"""Stores on disk without a disk: RocksDB takes 2 to 13 ms to open, which is a third of a run with many deaths.

The rows are in memory, and belong to a directory by a mark in it, so that they move with the directory. Only those of a
checkpoint are in files.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import StoreInFolder
from penstock.state.disk.memory import InMemoryStore, InMemoryTaskStores

_ROWS, _OFFSETS, _MARK = ".sst", "OFFSETS", "MARK"


class SimulatedTaskStores(InMemoryTaskStores):
    """The stores of one task in one process."""

    def __init__(
        self,
        rows: dict[str, InMemoryStore],
        offsets: dict[str, int],
        layouts: dict[str, str],
        closed: Callable[[], object],
    ) -> None:
        self._stores = {name: rows[name] for name in layouts}
        self._offsets = offsets
        self._layouts = layouts
        self._closed = closed

    @override
    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        """Puts each store into a file of its own, which is the same as long as its rows are."""
        (folder / "rocksdb").mkdir(parents=True)
        for name, store in self._stores.items():
            rows = sorted(store._rows.items())
            (folder / "rocksdb" / f"{name}{_ROWS}").write_bytes(pickle.dumps((name, rows)))
        offsets = {name: self.changelog_offset(name) for name in self._stores}
        (folder / "rocksdb" / _OFFSETS).write_bytes(pickle.dumps(offsets))
        return {name: StoreInFolder(self._layouts[name], offset) for name, offset in offsets.items()}

    @override
    def close(self) -> None:
        """Closes the stores; their rows remain."""
        if self._stores:
            self._stores = {}
            self._closed()


class SimulatedDisks:
    """Committed rows of every directory. They outlive the process, and go with their directory."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[dict[str, InMemoryStore], dict[str, int]]] = {}

    def open(
        self, path: Path, builders: Iterable[AnyStoreBuilder], closed: Callable[[], object] = lambda: None
    ) -> SimulatedTaskStores:
        """Replaces ``RocksDBTaskStores``."""
        mark = path / _MARK
        if not mark.exists():
            path.mkdir(parents=True, exist_ok=True)
            mark.write_text(f"{len(self._rows)}")
            self._rows[mark.read_text()] = _from_files(path)
        rows, offsets = self._rows[mark.read_text()]
        layouts = {builder.name: builder.layout for builder in builders}
        for name in layouts:
            rows.setdefault(name, InMemoryStore(name))
        return SimulatedTaskStores(rows, offsets, layouts, closed)

    def destroy(self, path: Path) -> None:
        """Delete the rows; the caller deletes the directory."""
        mark = path / _MARK
        if mark.exists():
            self._rows[mark.read_text()] = {}, {}
            mark.unlink()


def _from_files(path: Path) -> tuple[dict[str, InMemoryStore], dict[str, int]]:
    """Returns the rows and offsets of a checkpoint; none if there is none."""
    rows: dict[str, InMemoryStore] = {}
    for file in path.glob(f"*{_ROWS}"):
        name, found = pickle.loads(file.read_bytes())
        rows[name] = InMemoryStore(name)
        rows[name].apply(dict(found))
    offsets = pickle.loads((path / _OFFSETS).read_bytes()) if rows else {}
    return rows, {name: offset for name, offset in offsets.items() if offset is not None}
