"""Keeps the last events, within bounds of their number and their bytes."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from penstock.cluster.application_history import EventKind, HistoryEvent

MOST_EVENTS = 1000
MOST_BYTES = 200_000
LONGEST_SENTENCE = 400
REPEATED_WITHIN_MS = 60_000
"""An event that is equal to one in this time before it is counted there."""
_LOOK_BACK = 20
_BYTES_OF_AN_EVENT = 320
"""An event without its texts."""


class EventList:
    """Lines of the log, and all other events: each has its own bounds, so that neither removes the other."""

    def __init__(self) -> None:
        self._lines, self._others = _Ring(), _Ring()

    def add(self, event: HistoryEvent) -> None:
        """Add an event, with its sentence clipped."""
        (self._lines if event.kind is EventKind.LOG else self._others).add(event)

    def between(self, from_ms: int, to_ms: int) -> tuple[HistoryEvent, ...]:
        """Returns the events of these times, both included, in their order."""
        # Lines of actors arrive later than they were written; those of one actor are in order.
        found = sorted(chain(self._lines.events(), self._others.events()), key=lambda event: event.at_ms)
        return tuple(event for event in found if event.until_ms >= from_ms and event.at_ms <= to_ms)


class _Ring:
    def __init__(self) -> None:
        self._kept: deque[HistoryEvent] = deque()
        self._bytes = 0

    def events(self) -> Iterator[HistoryEvent]:
        return iter(self._kept)

    def add(self, event: HistoryEvent) -> None:
        message = event.message and clipped(event.message)
        until_ms = max(event.at_ms, event.until_ms)
        actor_id = event.actor_id and clipped(event.actor_id)  # a line of the program may name anything so
        event = replace(
            event, sentence=clipped(event.sentence), message=message, actor_id=actor_id, until_ms=until_ms
        )  # fmt: skip
        for back in range(1, min(len(self._kept), _LOOK_BACK) + 1):
            before = self._kept[-back]
            if _is_repeated(before, event):
                until_ms = max(before.until_ms, event.until_ms)  # lines of other threads and machines come in disorder
                self._kept[-back] = replace(before, until_ms=until_ms, times=before.times + 1)
                return
        self._kept.append(event)
        self._bytes += _size(event)
        while len(self._kept) > MOST_EVENTS or self._bytes > MOST_BYTES:
            self._bytes -= _size(self._kept.popleft())


def _is_repeated(before: HistoryEvent, event: HistoryEvent) -> bool:
    """True for the same line of the log with other figures, too; of other events the sentence must be equal."""
    same = before.message == event.message if event.kind is EventKind.LOG else before.sentence == event.sentence
    of_the_same = (before.kind, before.level, before.actor_id, before.task_id) == (
        event.kind, event.level, event.actor_id, event.task_id,
    )  # fmt: skip
    return same and of_the_same and event.at_ms - before.until_ms <= REPEATED_WITHIN_MS


def clipped(text: str, most: int = LONGEST_SENTENCE) -> str:
    """Returns the text as one that can be encoded, cut if it has more than ``most`` characters."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    # A file name that is no UTF-8 has halves of surrogate pairs in Python, which JSON cannot hold.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _size(event: HistoryEvent) -> int:
    return _BYTES_OF_AN_EVENT + sum(sys.getsizeof(it) for it in (event.sentence, event.message, event.actor_id) if it)
