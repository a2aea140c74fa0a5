"""Rows for people: their keys and values as the store's own serdes read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from typing_extensions import override

from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import CommittedStore, StateStore, StateStoreContext
from penstock.state.windowed.expiring_store import ExpiringStateStore


class RowsInWords:
    """Shows rows of one store. Bytes that its serdes cannot read are shown as they are."""

    def __init__(self, builder: AnyStoreBuilder) -> None:
        self._builder = builder

    def key(self, row_key: bytes) -> str:
        """Returns the key of a row, with its window if it has one."""
        with suppress(Exception):  # a serde may raise anything, and so may the form of a broken row
            opened = self._opened(row_key, b"")
            if isinstance(opened, ExpiringStateStore):
                return opened.buffer.show_key(row_key)
            assert self._builder.key_serde is not None
            return repr(self._builder.key_serde.deserialize(self._builder.key_of_compared(row_key)))
        return repr(row_key)

    def row(self, row_key: bytes, row: bytes | None) -> str:
        """Returns the value of a row, and its timestamp if it has one."""
        if row is None:
            return "no row"
        with suppress(Exception):
            value, timestamp = self._opened(row_key, row).changelog_record(self._builder.key_of_compared(row_key))
            if value is not None and self._builder.value_serde is not None:
                shown = repr(self._builder.value_serde.deserialize(value))
                return f"{shown} at {timestamp}" if timestamp > 0 else shown
        return repr(row)

    def _opened(self, row_key: bytes, row: bytes) -> StateStore:
        committed = _OneRow(row_key, row)
        return self._builder.open(StateStoreContext(committed, None, False, lambda: 0, _nothing))


def _nothing(*_: Any) -> None:
    """Nothing is dropped here."""


class _OneRow(CommittedStore):
    def __init__(self, key: bytes, row: bytes) -> None:
        self._key = key
        self._row = row

    @override
    def get(self, key: bytes) -> bytes | None:
        return self._row if key == self._key else None

    @override
    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    @override
    def scan(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    @override
    def approximate_num_entries(self) -> int:
        return 1

    @override
    def figures(self) -> dict[str, float]:
        return {}
