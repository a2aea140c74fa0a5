"""The schedules of punctuators, on either clock. Mirrors ``PunctuationQueue`` and ``PunctuationSchedule``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from penstock.common.java_collections import JavaPriorityQueue
from penstock.common.time import to_ms
from penstock.topology.processor_api.processor import Punctuator

Run = Callable[[str, Punctuator, int], None]
"""Calls a punctuator of the named node at a time (ms)."""

NEVER = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class Schedule:
    """A call, next at ``due_ms``; it is its own :class:`~penstock.topology.processor_api.processor.Cancellable`."""

    due_ms: int
    interval_ms: int
    node: str
    punctuator: Punctuator
    cancelled: bool = False

    def cancel(self) -> None:
        """Stop the schedule: no further call is made."""
        self.cancelled = True

    def advance(self, now_ms: int) -> None:
        """Move on to the next call; intervals that were missed are skipped, the phase is kept."""
        self.due_ms = following(self.due_ms, self.interval_ms, now_ms)


def following(due_ms: int, interval_ms: int, now_ms: int) -> int:
    """Returns the next time of a schedule that was due at ``due_ms``: one interval later or more, after ``now_ms``."""
    missed = max(0, now_ms - due_ms) // interval_ms
    return due_ms + (missed + 1) * interval_ms


def start_ms(start_time: datetime | int) -> int:
    """Returns ``start_time`` in ms since the epoch. Raises ValueError or TypeError if it is no such time."""
    if isinstance(start_time, datetime):
        if start_time.tzinfo is None:
            raise ValueError(f"schedule: start_time must have a time zone: {start_time.isoformat()}")
        start_time = (start_time - _EPOCH) // timedelta(milliseconds=1)
    return to_ms(start_time, "schedule: start_time")


class PunctuationQueue:
    """The schedules of one clock of one task. Those due at the same time are called in Kafka Streams' order."""

    def __init__(self) -> None:
        self._heap: JavaPriorityQueue[Schedule] = JavaPriorityQueue(attrgetter("due_ms"))
        self.next_ms = NEVER
        self.called = 0
        """Number of calls that were made."""

    def schedule(self, node: str, first_ms: int, interval_ms: int, punctuator: Punctuator) -> Schedule:
        """Add a schedule that is due first at ``first_ms``, then each ``interval_ms``."""
        if interval_ms < 1:
            raise ValueError(f"a punctuation interval is at least 1 ms, not {interval_ms} ms")
        made = Schedule(first_ms, interval_ms, node, punctuator)
        self._heap.add(made)
        self.next_ms = self._heap.peek().due_ms
        return made

    def punctuate(self, now_ms: int, run: Run) -> bool:
        """Make every call that is due; returns True if there was any."""
        called = False
        heap = self._heap
        while heap and heap.peek().due_ms <= now_ms:
            due = heap.poll()
            if due.cancelled:
                continue
            run(due.node, due.punctuator, now_ms)
            self.called += 1
            called = True
            if not due.cancelled:
                due.advance(now_ms)
                heap.add(due)
        self.next_ms = heap.peek().due_ms if heap else NEVER
        return called
