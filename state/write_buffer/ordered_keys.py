"""Keys in order, for stores that are scanned: a new key, and a key found, cost O(log n).

The only file that knows sortedcontainers, which has no types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

from sortedcontainers import SortedList


class OrderedKeys:
    """A set of keys in order."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys = SortedList(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, keys: Iterable[bytes]) -> None:
        """Add ``keys``, which are new, each once."""
        self._keys.update(keys)

    def discard(self, keys: Iterable[bytes]) -> int:
        """Remove those of ``keys`` that are in the set. Returns their number."""
        before = len(self._keys)
        for key in keys:
            self._keys.discard(key)
        return before - len(self._keys)

    def take_out(self, from_key: bytes, to_key: bytes) -> list[bytes]:
        """Remove and return the keys from ``from_key`` up to, but not including, ``to_key``."""
        begin, end = self._keys.bisect_left(from_key), self._keys.bisect_left(to_key)
        taken = list(self._keys[begin:end])
        del self._keys[begin:end]
        return taken

    def between(
        self, from_key: bytes | None, to_key: bytes | None, reverse: bool, most: int | None = None
    ) -> Iterator[bytes]:
        """Keys in order, both ends included, None open, no more than ``most``. Consume it before the next change."""
        return islice(cast("Iterator[bytes]", self._keys.irange(from_key, to_key, reverse=reverse)), most)
