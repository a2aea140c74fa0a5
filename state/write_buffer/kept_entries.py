"""The committed entries that a write buffer keeps: how large they are, and in which form to keep what commits flush."""

from __future__ import annotations

from typing import Any

from penstock.state.write_buffer.sizes import SAMPLE_EVERY, entry_bytes

# Number of commits before the store tries again if keeping their entries saves reads.
_FLUSHES_NOT_KEPT = 16


class KeptSizes:
    """Mean sizes in the process of the committed entries that are kept, by generation."""

    def __init__(self) -> None:
        self.clean = 0.0
        self.older = 0.0

    def read(self, key: bytes, value: Any, row_bytes: int, kept: int) -> None:
        """Count a random entry that was decoded from ``row_bytes``; ``kept`` are in the younger generation."""
        self.clean += (entry_bytes(key, value, row_bytes) - self.clean) * min(1.0, SAMPLE_EVERY / (kept or 1))

    def flushed(self, entries: int, mean: float, kept: int) -> None:
        """Count ``entries`` of ``mean`` bytes, which join the ``kept`` ones of the younger generation."""
        self.clean = (self.clean * kept + mean * entries) / (kept + entries)

    def aged(self) -> None:
        """Make the younger generation the older one."""
        self.older = self.clean


class KeepFlushed:
    """Decides if a store keeps the entries that its commits flush, as their keys may come again, and in which form.

    It keeps none after memory was full and nearly every key that was updated had still to be read from disk: with so
    many keys, keeping costs more than it saves. It tries again after some commits.

    ``misses`` and ``updates`` are counted since the store was opened: rows that were read to be updated, keys that were
    updated.
    """

    def __init__(self) -> None:
        self.as_bytes = False
        """True if what is kept should be kept as bytes, which take less memory: it was full during one of the last
        commits."""
        self._short_flushes = 0
        self._flushes_left = 0
        self._misses = 0
        self._updates = 0

    def begin_flush(self, misses: int, updates: int) -> bool:
        """Returns True if the store keeps what this flush finds."""
        self._short_flushes = max(self._short_flushes - 1, 0)
        keeps = not self._flushes_left
        self.as_bytes = keeps and self._short_flushes > 0
        if not keeps:
            self._flushes_left -= 1
            self._misses, self._updates = misses, updates
        return keeps

    def memory_was_full(self, misses: int, updates: int) -> None:
        """Note that unused entries are dropped to make room."""
        self._short_flushes = _FLUSHES_NOT_KEPT
        missed, updated = misses - self._misses, updates - self._updates
        if updated and missed * 8 > updated * 7:
            self._flushes_left = self._flushes_left or _FLUSHES_NOT_KEPT
        self.as_bytes = not self._flushes_left
        self._misses, self._updates = misses, updates
