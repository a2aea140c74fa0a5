"""Rows of answers as clients see them: the store's key, the value, and further fields.

Each kind of store has a form (``StoreBuilder.entries``), which travels to the client: only the form knows what the key
of a row holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.state.queries import QueryRow


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """One row of a store. ``timestamp`` is event time in ms, None if the store keeps none. In a range, a key that the
    store's serde cannot read is given as bytes."""

    key: Any
    value: Any
    timestamp: int | None


@dataclass(frozen=True)
class EntryForm:
    """The form of a store whose rows have its keys."""

    def is_row_key(self, data: bytes) -> bool:
        """Returns True if ``data`` can be the key of an answer's row: untrusted clients pass it to continue there."""
        return True

    def key(self, row_key: bytes) -> bytes:
        """The store's key in the key of a row."""
        return row_key

    def entry(self, key: Any, row: QueryRow) -> StoreEntry:
        """Returns the entry of ``row``, whose key is ``key``."""
        return StoreEntry(key, row.value, row.timestamp)


PLAIN = EntryForm()
