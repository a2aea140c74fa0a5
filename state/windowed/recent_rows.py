"""The rows of a join's window store that are in memory, by key: joins look into them instead of RocksDB.

Rows lie in *panes*, spans of a third of the time for which the store keeps rows: what has expired is dropped a pane at
a time, without a search through the keys.

``join_rows.pyx`` has the same, compiled; if that could not be built, the class below is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

Row = tuple[int, Any, bytes]
"""(time, value, key of the changelog)"""

NOTHING: Sequence[Row] = ()


class _Pane:
    """The rows of one span of time, by key, in the order of time, then of arrival. ``updates`` are those that wait for
    a commit and were not taken yet; ``taken`` counts those that were."""

    __slots__ = ("rows", "taken", "updates")

    def __init__(self) -> None:
        self.rows: dict[bytes, list[Row]] = {}
        self.updates: list[Row] = []
        self.taken = 0


class _RecentRows:
    """All rows from the time ``complete_from`` on; it knows nothing of older ones."""

    def __init__(self, retention_ms: int) -> None:
        self.pane_ms = max(retention_ms // 3, 1)
        self.complete_from = 0
        self.panes: dict[int, _Pane] = {}

    def add(self, key: bytes, time: int, value: Any, logged_key: bytes) -> bool:
        """Add a row of ``key``, after those of the same time. Before ``complete_from``: add none, return False."""
        if time < self.complete_from:
            return False
        row = (time, value, logged_key)
        number = time // self.pane_ms
        pane = self.panes.get(number)
        if pane is None:
            pane = self.panes[number] = _Pane()
        pane.updates.append(row)
        rows = pane.rows.get(key)
        if rows is None:
            pane.rows[key] = [row]
        elif rows[-1][0] <= time:
            rows.append(row)
        else:
            rows.insert(bisect_left(rows, (time + 1,)), row)
        return True

    def of_key(self, key: bytes, time_from: int, time_to: int) -> Sequence[Row] | None:
        """The rows of ``key`` between the times, both included; None if that begins before ``complete_from``. Not a
        copy: use it before the next row is added."""
        if time_from < self.complete_from:
            return None
        number, last = time_from // self.pane_ms, time_to // self.pane_ms
        panes = self.panes
        found: Sequence[Row] = NOTHING
        while True:
            pane = panes.get(number)
            rows = None if pane is None else pane.rows.get(key)
            if rows is not None:
                if rows[0][0] < time_from or rows[-1][0] > time_to:
                    # A tuple of one is smaller than a longer one that begins alike: values are not compared.
                    rows = rows[bisect_left(rows, (time_from,)) : bisect_left(rows, (time_to + 1,))]
                found = [*found, *rows] if found else rows
            if number >= last:
                return found
            number += 1

    def expire(self, first_visible: int) -> None:
        """Drop the panes that end before ``first_visible``."""
        end = first_visible // self.pane_ms
        for number in [number for number in self.panes if number < end]:
            del self.panes[number]

    def drop_oldest(self) -> None:
        """Drop the oldest pane, to make room. There must be one."""
        oldest = min(self.panes)
        del self.panes[oldest]
        self.complete_from = max(self.complete_from, (oldest + 1) * self.pane_ms)

    def forget(self, complete_from: int) -> None:
        """Begin again: nothing is known of what is older than ``complete_from``."""
        self.panes.clear()
        self.complete_from = complete_from

    def take_updates(self) -> list[Row]:
        """Returns the rows that wait for a commit, pane by pane; from now on they are the caller's."""
        taken: list[Row] = []
        for pane in self.panes.values():
            taken += pane.updates
            pane.taken += len(pane.updates)
            pane.updates = []
        return taken

    def count(self) -> int:
        """Returns the number of rows."""
        return sum([pane.taken + len(pane.updates) for pane in self.panes.values()])

    def count_updates(self) -> int:
        """Returns the number of rows that wait for a commit and were not taken yet."""
        return sum([len(pane.updates) for pane in self.panes.values()])


try:
    from penstock.state.windowed.join_rows import RecentRows as RecentRows
except ImportError:  # it could not be compiled here
    RecentRows = _RecentRows  # type: ignore[misc, assignment]  # with the same methods
