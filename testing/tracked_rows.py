"""Checks at each commit that stores of the program's own kinds could be restored from their changelogs.

penstock's own kinds of stores are proven by their tests; programs without their own kinds are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from typing_extensions import override

from penstock.common.errors import RuleBrokenError
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommitBatch, CommittedStore, StateStore, StoreInFolder, TaskStores

_SEE = "(docs/STORES.md, What the engine asks of it)"


def is_own(builder: AnyStoreBuilder) -> bool:
    """Returns True if the program itself has written this kind of store."""
    return not type(builder).__module__.startswith("penstock.")


class TrackedTaskStores(TaskStores):
    """``inner``, whose batches are looked at: rows must be bytes, and :meth:`check` compares them with changelogs."""

    def __init__(self, inner: TaskStores) -> None:
        self._inner = inner
        self._rows: dict[str, dict[bytes, bytes | None]] = {}
        self._tracked: list[tuple[StateStore, dict[bytes, bytes | None]]] = []

    def track(self, stores: Iterable[StateStore], logs: Mapping[str, str]) -> dict[str, dict[bytes, bytes | None]]:
        """Compare ``stores`` with their changelogs from now on. ``logs`` are topics by the stores that have changelogs
        of their own; returned is, per topic, where to put what such a store writes to it."""
        self._tracked = [(store, {}) for store in stores if store.name in logs]
        return {logs[store.name]: logged for store, logged in self._tracked}

    def check(self) -> None:
        """After a commit: raises RuleBrokenError for the first store whose rows a restart would not bring back.

        Only a store that restores as :class:`StateStore` does can be compared: its rows are what its changelog holds.
        """
        for store, logged in self._tracked:
            if type(store).restore is StateStore.restore:
                _compare(store.name, self._rows.get(store.name, {}), logged)
            logged.clear()
        self._rows.clear()

    @override
    def store(self, name: str) -> CommittedStore:
        return self._inner.store(name)

    @override
    def new_batch(self) -> CommitBatch:
        return _TrackedBatch(self._inner.new_batch(), self._rows)

    @override
    def write(self, batch: CommitBatch, changelog_offsets: Mapping[str, int]) -> None:
        assert isinstance(batch, _TrackedBatch)
        self._inner.write(batch.inner, changelog_offsets)

    @override
    def bulk_load(self, store: str) -> None:
        """Nothing is restored here."""

    @override
    def flush(self) -> None:
        self._inner.flush()

    @override
    def checkpoint(self, folder: Path) -> Mapping[str, StoreInFolder]:
        return self._inner.checkpoint(folder)

    @override
    def changelog_offset(self, store: str) -> int | None:
        return self._inner.changelog_offset(store)

    @override
    def wipe(self, store: str) -> None:
        self._inner.wipe(store)

    @override
    def close(self) -> None:
        self._inner.close()


class _TrackedBatch:
    def __init__(self, inner: CommitBatch, rows: dict[str, dict[bytes, bytes | None]]) -> None:
        self.inner = inner
        self._rows = rows

    def put(self, store: str, key: bytes, row: bytes) -> None:
        _check_bytes(store, "put", key, row)
        self._rows.setdefault(store, {})[key] = row
        self.inner.put(store, key, row)

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        for key, row in rows.items():
            _check_bytes(store, "put_all", key, *(() if row is None else (row,)))
        self._rows.setdefault(store, {}).update(rows)
        return self.inner.put_all(store, rows)

    def delete(self, store: str, key: bytes) -> None:
        _check_bytes(store, "delete", key)
        self._rows.setdefault(store, {})[key] = None
        self.inner.delete(store, key)

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        _check_bytes(store, "delete_range", from_key, to_key)
        self.inner.delete_range(store, from_key, to_key)


def _check_bytes(store: str, method: str, *given: object) -> None:
    for each in given:
        if not isinstance(each, bytes):
            raise RuleBrokenError(
                f"store {store}: batch.{method} was given {each!r} ({type(each).__name__}): keys and rows are bytes, "
                f"as the serdes make them {_SEE}"
            )


def _compare(store: str, rows: Mapping[bytes, bytes | None], logged: Mapping[bytes, bytes | None]) -> None:
    for key, row in rows.items():
        if key not in logged:
            raise RuleBrokenError(
                f"store {store}: it changed the row of key {key!r} in a commit, and wrote nothing to its changelog: a "
                "restart would not find the change. Call context.log for each change, or build the store "
                f"with_logging_disabled() {_SEE}"
            )
        if logged[key] != row:
            raise RuleBrokenError(
                f"store {store}: under key {key!r} it put {row!r} and wrote {logged[key]!r} to its changelog, from "
                f"which a restart would restore it. Write the same, or override restore() {_SEE}"
            )
    for key in logged:
        if key not in rows:
            raise RuleBrokenError(
                f"store {store}: it wrote key {key!r} to its changelog, and changed no row of that key in the commit: "
                f"after a restart it would show what it does not show now {_SEE}"
            )
