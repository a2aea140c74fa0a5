"""When punctuators are due, on either clock. Mirrors ``PunctuationQueue`` and ``PunctuationSchedule``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from penstock.common.java_collections import JavaPriorityQueue
from penstock.topology.processor import Punctuator

Run = Callable[[str, Punctuator, int], None]
"""Calls a punctuator of the named node at a time (ms)."""

NEVER = 1 << 63


@dataclass(eq=False)
class Schedule:
    """One call that will be due at ``due_ms``; it is its own :class:`~penstock.topology.processor.Cancellable`."""

    due_ms: int
    interval_ms: int
    node: str
    punctuator: Punctuator
    cancelled: bool = False

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
    """The schedules of one clock of one task. Those due at the same time are called in Kafka Streams' order."""

    def __init__(self) -> None:
        self._heap: JavaPriorityQueue[Schedule] = JavaPriorityQueue(attrgetter("due_ms"))
        self.next_ms = NEVER

    def schedule(self, node: str, first_ms: int, interval_ms: int, punctuator: Punctuator) -> Schedule:
        """First due at ``first_ms``, then each ``interval_ms``."""
        if interval_ms < 1:
            raise ValueError(f"a punctuation interval is at least 1 ms, not {interval_ms} ms")
        made = Schedule(first_ms, interval_ms, node, punctuator)
        self._heap.add(made)
        self.next_ms = self._heap.peek().due_ms
        return made

    def punctuate(self, now_ms: int, run: Run) -> bool:
        """Make every call that is due; whether there was any."""
        called = False
        heap = self._heap
        while heap and heap.peek().due_ms <= now_ms:
            due = heap.poll()
            if due.cancelled:
                continue
            run(due.node, due.punctuator, now_ms)
            called = True
            if not due.cancelled:
                due.advance(now_ms)
                heap.add(due)
        self.next_ms = heap.peek().due_ms if heap else NEVER
        return called
