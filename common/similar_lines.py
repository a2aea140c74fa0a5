"""Limits similar log lines, so that a topic of bad records does not fill the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

_MOST_KINDS = 1000


class SimilarLines:
    """Admits the first ``most`` lines of each kind, then ``most`` in each ``period_s`` seconds.

    Threads may share it: at worst a line too many is admitted, or one that was left out is not counted.
    """

    def __init__(self, most: int = 5, period_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._period_s = period_s
        self._clock = clock
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}

    def admit(self, kind: Hashable) -> int | None:
        """Returns None if the line must not be logged; else the number of lines of its kind that were left out since
        the last one, which it should name."""
        now = self._clock()
        if len(self._kinds) >= _MOST_KINDS and kind not in self._kinds:
            self._kinds.clear()
        since, logged, left_out = self._kinds.get(kind, (now, 0, 0))
        if now - since >= self._period_s:
            since, logged = now, 0
        if logged < self._most:
            self._kinds[kind] = since, logged + 1, 0
            return left_out
        self._kinds[kind] = since, logged, left_out + 1
        return None
