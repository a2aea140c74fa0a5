"""Rows of answers as those see them who asked: the store's key, and what belongs to it beside the value.

Each kind of store has a form (``StoreBuilder.entries``), which travels to whoever asks: nobody else knows what stands
in the key of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.state.queries import QueryRow


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """One row of a store. ``timestamp`` is event time in ms, None where the store keeps none. In a range, a key that
    the store's serde cannot read is given as the bytes it is."""

    key: Any
    value: Any
    timestamp: int | None


@dataclass(frozen=True)
class EntryForm:
    """The form of a store whose rows have its keys."""

    def is_row_key(self, data: bytes) -> bool:
        """Whether ``data`` can be the key of a row of an answer: strangers hand it in to go on behind it."""
        return True

    def key(self, row_key: bytes) -> bytes:
        """The store's key in the key of a row."""
        return row_key

    def entry(self, key: Any, row: QueryRow) -> StoreEntry:
        """``row``, whose key is ``key``."""
        return StoreEntry(key, row.value, row.timestamp)


PLAIN = EntryForm()
