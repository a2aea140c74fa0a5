"""Stores on disk without a disk: RocksDB takes 2 to 13 ms to open, which is a third of a run with many deaths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.memory import InMemoryStore, InMemoryTaskStores


class SimulatedTaskStores(InMemoryTaskStores):
    """The stores of one task in one process."""

    def __init__(
        self, rows: dict[str, InMemoryStore], offsets: dict[str, int], names: list[str], closed: Callable[[], object]
    ) -> None:
        self._stores = {name: rows[name] for name in names}
        self._offsets = offsets
        self._closed = closed

    @override
    def close(self) -> None:
        """Closes the stores; their rows remain."""
        if self._stores:
            self._stores = {}
            self._closed()


class SimulatedDisks:
    """Committed rows of every directory. They outlive the process, and go with their directory."""

    def __init__(self) -> None:
        self._rows: dict[Path, tuple[dict[str, InMemoryStore], dict[str, int]]] = {}

    def open(
        self, path: Path, builders: Iterable[AnyStoreBuilder], closed: Callable[[], object] = lambda: None
    ) -> SimulatedTaskStores:
        """Replaces ``RocksDBTaskStores``."""
        if not path.exists():
            path.mkdir(parents=True)
            self._rows[path] = {}, {}
        rows, offsets = self._rows[path]
        names = [builder.name for builder in builders]
        for name in names:
            rows.setdefault(name, InMemoryStore(name))
        return SimulatedTaskStores(rows, offsets, names, closed)

    def destroy(self, path: Path) -> None:
        """Delete the rows; the caller deletes the directory."""
        self._rows.pop(path, None)
