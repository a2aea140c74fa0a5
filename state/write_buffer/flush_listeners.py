"""Listeners to the updates that a store with caching flushes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.records import Headers

OnFlush = Callable[[bytes, Any, Any, int, Headers | None], None]
"""Called with each flushed update: (row key, new value, old value or None, timestamp, headers)."""


class FlushListeners:
    """Functions that are called one after the other, each with old values or without."""

    def __init__(self) -> None:
        self._listeners: list[tuple[OnFlush, bool]] = []
        self.want_old_values = False
        """True if any listener wants old values."""

    def add(self, on_flush: OnFlush, old_values: bool) -> None:
        """Call ``on_flush`` with each update, after all listeners that were added before; with None in place of each
        old value unless it wants ``old_values``."""
        self._listeners.append((on_flush, old_values))
        self.want_old_values = self.want_old_values or old_values

    def as_one(self) -> OnFlush | None:
        """Returns one function that calls all listeners; None if there are none."""
        listeners = self._listeners
        if len(listeners) <= 1:
            return listeners[0][0] if listeners else None

        def notify(key: bytes, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
            for on_flush, old_values in listeners:
                on_flush(key, new, old if old_values else None, timestamp, headers)

        return notify
