"""Aggregates in windows of time, for the reference model: docs/WINDOWS.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.parity.fuzz.model_idle import IdleClock

Run = Callable[[Any, Any, int], None]


class Windows:
    """The windows of one step, with the aggregate of each key and window."""

    def __init__(self, step: dict[str, Any], idle: IdleClock, cached: bool) -> None:
        self._size, self._grace = step["size_ms"], step["grace_ms"]
        self._step = step.get("advance_ms", self._size)
        self._on_close = step.get("emit_final", False)
        self._idle = idle
        self._observed = -1
        self._open: dict[tuple[int, bytes], tuple[str, Any, int]] = {}
        """By start and key: the key, its aggregate and the largest timestamp in it."""
        self._cached = cached
        self._changed: dict[tuple[int, bytes], tuple[str, Any, int]] = {}
        self.dropped = 0

    def aggregate(self, add: Callable[[Any, Any], Any], forward: Run) -> Run:
        """Returns a function that takes the records; ``forward`` gets the key and its window as text."""
        self._add, self._forward = add, forward
        self._idle.add(lambda: self._observed, self._observe_idle)
        return self._run

    def _run(self, key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            self.dropped += 1
            return
        self._observed = max(self._observed, timestamp)
        first = max(0, (timestamp - self._size + self._step) // self._step * self._step)
        for start in range(first, timestamp + 1, self._step):
            if start + self._size <= self._observed - self._grace:
                self.dropped += 1
                continue
            place = start, key.encode()
            _, before, newest = self._open.get(place, (key, None, timestamp))
            row = self._open[place] = key, self._add(value, before), max(timestamp, newest)
            if not self._on_close:
                self._changed.pop(place, None)
                self._changed[place] = row
                if not self._cached:
                    self.commit()
        self._close()

    def commit(self) -> None:
        """Forwards what has changed: each window once, in the order of the last updates."""
        changed, self._changed = self._changed, {}
        for (start, _), row in changed.items():
            self._show(start, row)

    def _observe_idle(self, time: int) -> None:
        self._observed = time
        self._close()

    def _close(self) -> None:
        """Removes the windows that take no more records, ordered by start, then by key."""
        for place in sorted(self._open):
            if place[0] + self._size <= self._observed - self._grace:
                row = self._open.pop(place)
                if self._on_close:
                    self._show(place[0], row)

    def _show(self, start: int, row: tuple[str, Any, int]) -> None:
        key, value, timestamp = row
        self._forward(f"{key}@{start}/{start + self._size}", value, timestamp)
