"""When punctuators are due, on either clock. Mirrors ``PunctuationQueue`` and ``PunctuationSchedule``."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.topology.processor import Punctuator

Run = Callable[[str, Punctuator, int], None]
"""Calls a punctuator of the named node at a time (ms)."""

NEVER = 1 << 63


@dataclass(order=True)
class Schedule:
    """One call that will be due at ``due_ms``; it is its own :class:`~penstock.topology.processor.Cancellable`."""

    due_ms: int
    order: int
    interval_ms: int = field(compare=False)
    node: str = field(compare=False)
    punctuator: Punctuator = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """No further call is made."""
        self.cancelled = True

    def advance(self, now_ms: int) -> None:
        """The next call; intervals that were missed are skipped, the phase is kept."""
        following = self.due_ms + self.interval_ms
        if now_ms >= following:
            missed = (now_ms - self.due_ms) // self.interval_ms
            following = self.due_ms + (missed + 1) * self.interval_ms
        self.due_ms = following


class PunctuationQueue:
    """The schedules of one clock of one task."""

    def __init__(self) -> None:
        self._heap: list[Schedule] = []
        self._order = 0
        self.next_ms = NEVER

    def schedule(self, node: str, first_ms: int, interval_ms: int, punctuator: Punctuator) -> Schedule:
        """First due at ``first_ms``, then each ``interval_ms``."""
        if interval_ms < 1:
            raise ValueError(f"a punctuation interval is at least 1 ms, not {interval_ms} ms")
        self._order += 1
        made = Schedule(first_ms, self._order, interval_ms, node, punctuator)
        heapq.heappush(self._heap, made)
        self.next_ms = self._heap[0].due_ms
        return made

    def punctuate(self, now_ms: int, run: Run) -> bool:
        """Make every call that is due; whether there was any."""
        called = False
        while self._heap and self._heap[0].due_ms <= now_ms:
            due = heapq.heappop(self._heap)
            if due.cancelled:
                continue
            run(due.node, due.punctuator, now_ms)
            called = True
            if not due.cancelled:
                due.advance(now_ms)
                self._order += 1
                due.order = self._order
                heapq.heappush(self._heap, due)
        self.next_ms = self._heap[0].due_ms if self._heap else NEVER
        return called
