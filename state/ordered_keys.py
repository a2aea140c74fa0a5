"""The keys of a dictionary in order, for stores that are scanned."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge

_LARGEST_RECENT = 4096


class OrderedKeys:
    """Keys in two sorted runs: a new key moves the small one only, and the small one seldom joins the large one."""

    def __init__(self) -> None:
        self._settled: list[bytes] = []
        self._recent: list[bytes] = []

    def add(self, keys: Iterable[bytes]) -> None:
        """New ``keys``, each once."""
        self._recent.extend(keys)
        if len(self._recent) > max(_LARGEST_RECENT, len(self._settled) // 16):
            self._settled += self._recent
            self._recent = []
            self._settled.sort()  # mostly in order: Python's sort merges what is
        else:
            self._recent.sort()

    def between(self, from_key: bytes | None, to_key: bytes | None, reverse: bool) -> Iterator[bytes]:
        """Keys in order, both ends included, None open. Consume it before the next ``add``."""
        return merge(
            _between(self._settled, from_key, to_key, reverse),
            _between(self._recent, from_key, to_key, reverse),
            reverse=reverse,
        )


def _between(keys: list[bytes], from_key: bytes | None, to_key: bytes | None, reverse: bool) -> Iterator[bytes]:
    begin = 0 if from_key is None else bisect_left(keys, from_key)
    end = len(keys) if to_key is None else bisect_right(keys, to_key)
    return map(keys.__getitem__, range(end - 1, begin - 1, -1) if reverse else range(begin, end))
