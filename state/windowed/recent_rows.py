"""The rows of a join's window store that stand in memory, by key: what joins look into instead of RocksDB.

Rows lie in *panes*, spans of time as long as the store keeps rows, so that what has expired goes a pane at a time and
nobody looks through the keys for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

Row = tuple[int, Any]
"""(time, value)"""

NOTHING: Sequence[Row] = ()

_PANES = 2


class Pane:
    """The rows of one span of time: by key in the order of time, those of one time as they came. ``updates`` are the
    keys of the rows that no commit has taken yet."""

    __slots__ = ("rows", "updates")

    def __init__(self) -> None:
        self.rows: dict[bytes, list[Row]] = {}
        self.updates: list[bytes] = []


class RecentRows:
    """All rows since ``complete_from``, a time; of older ones it knows nothing."""

    def __init__(self, retention_ms: int) -> None:
        self.pane_ms = max(retention_ms // _PANES, 1)
        self.complete_from = 0
        self.count = 0
        self.panes: dict[int, Pane] = {}

    def add(self, key: bytes, time: int, value: Any) -> Pane | None:
        """A row of ``key``, behind those of the same time; its pane, or None where it is too old to stand here."""
        if time < self.complete_from:
            return None
        number = time // self.pane_ms
        pane = self.panes.get(number)
        if pane is None:
            pane = self.panes[number] = Pane()
        rows = pane.rows.get(key)
        if rows is None:
            pane.rows[key] = [(time, value)]
        elif rows[-1][0] <= time:
            rows.append((time, value))
        else:
            rows.insert(bisect_left(rows, (time + 1,)), (time, value))
        self.count += 1
        return pane

    def of_key(self, key: bytes, time_from: int, time_to: int) -> Sequence[Row]:
        """The rows of ``key`` between the times, both included, the first of which is not before ``complete_from``. Not
        a copy: use it before the next row is added."""
        first, last = time_from // self.pane_ms, time_to // self.pane_ms
        panes = self.panes
        if first == last:
            pane = panes.get(first)
            return NOTHING if pane is None else _between(pane.rows.get(key), time_from, time_to)
        found: list[Row] = []
        for number in range(first, last + 1):
            if (pane := panes.get(number)) is not None and (rows := pane.rows.get(key)) is not None:
                found += _between(rows, time_from, time_to)
        return found

    def expire(self, first_visible: int) -> list[bytes]:
        """Drop the panes that end before ``first_visible``; the keys of their rows that no commit has taken."""
        end = first_visible // self.pane_ms
        updates: list[bytes] = []
        for number in [number for number in self.panes if number < end]:
            updates += self._drop(number)
        return updates

    def drop_oldest(self) -> bool:
        """Make room; False when there is nothing."""
        if not self.panes:
            return False
        oldest = min(self.panes)
        self._drop(oldest)
        self.complete_from = max(self.complete_from, (oldest + 1) * self.pane_ms)
        return True

    def forget(self, complete_from: int) -> None:
        """Begin anew: nothing is known of what is older than ``complete_from``."""
        self.panes.clear()
        self.count = 0
        self.complete_from = complete_from

    def taken_by_commit(self) -> None:
        """All rows until now are in a commit."""
        for pane in self.panes.values():
            pane.updates.clear()

    def _drop(self, number: int) -> list[bytes]:
        pane = self.panes.pop(number)
        self.count -= sum(map(len, pane.rows.values()))
        return pane.updates


def _between(rows: list[Row] | None, time_from: int, time_to: int) -> Sequence[Row]:
    if rows is None:
        return NOTHING
    if rows[0][0] >= time_from and rows[-1][0] <= time_to:
        return rows
    # A tuple of one is smaller than every longer one that begins alike: values are not compared.
    return rows[bisect_left(rows, (time_from,)) : bisect_left(rows, (time_to + 1,))]
