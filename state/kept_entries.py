"""The committed entries that a write buffer keeps: how large they are, and whether to keep what commits flush."""

from __future__ import annotations

from typing import Any

from penstock.state.sizes import SAMPLE_EVERY, entry_bytes

# So many commits pass before it is tried again whether keeping their entries spares reads.
_FLUSHES_NOT_KEPT = 16


class KeptSizes:
    """Mean sizes in the process of the committed entries that are kept, by generation."""

    def __init__(self) -> None:
        self.clean = 0.0
        self.older = 0.0

    def read(self, key: bytes, value: Any, row_bytes: int, kept: int) -> None:
        """An entry was decoded from ``row_bytes``, drawn by lot; ``kept`` are in the younger generation."""
        self.clean += (entry_bytes(key, value, row_bytes) - self.clean) * min(1.0, SAMPLE_EVERY / (kept or 1))

    def flushed(self, entries: int, mean: float, kept: int) -> None:
        """``entries`` of ``mean`` bytes join the ``kept`` ones of the younger generation."""
        self.clean = (self.clean * kept + mean * entries) / (kept + entries)

    def aged(self) -> None:
        """The younger generation is the older one now."""
        self.older = self.clean


class KeepFlushed:
    """Whether a store keeps the entries that its commits flush, for their keys may come again.

    Not where memory was full and nearly every key that was updated had still to be read from disk: with so many keys,
    keeping costs more than it spares. It is tried again after some commits.

    ``misses`` and ``updates`` are counted since the store was opened: rows that were read, keys that were updated.
    """

    def __init__(self) -> None:
        self._flushes_left = 0
        self._misses = 0
        self._updates = 0

    def begin_flush(self, misses: int, updates: int) -> bool:
        """Whether to keep what this flush finds."""
        if not self._flushes_left:
            return True
        self._flushes_left -= 1
        self._misses, self._updates = misses, updates
        return False

    def memory_was_full(self, misses: int, updates: int) -> None:
        """Entries are dropped that nobody has used."""
        missed, updated = misses - self._misses, updates - self._updates
        if updated and missed * 8 > updated * 7:
            self._flushes_left = self._flushes_left or _FLUSHES_NOT_KEPT
        self._misses, self._updates = misses, updates
