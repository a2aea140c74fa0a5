"""Counts of the records that an application has processed while something watches it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from penstock.cluster.read_side import TaskStatus
from penstock.common.ids import TaskId

K = TypeVar("K", bound=Hashable)


class Ascending(Generic[K]):
    """Counts that never decrease. A task starts again at zero when it moves or returns to its last commit; the counts
    before are added."""

    def __init__(self) -> None:
        self._before: dict[K, int] = {}
        self._last: dict[K, int] = {}

    def take(self, key: K, count: int) -> None:
        """Take the count that is reported for ``key`` now."""
        last = self._last.get(key, 0)
        if count < last:
            self._before[key] = self._before.get(key, 0) + last
        self._last[key] = count

    @property
    def counts(self) -> Mapping[K, int]:
        """The count of each key that was ever reported."""
        return {key: self._before.get(key, 0) + last for key, last in self._last.items()}


class Processed:
    """The records that each task has processed since they are watched."""

    def __init__(self) -> None:
        self._counts: Ascending[TaskId] = Ascending()

    def of(self, tasks: Iterable[TaskStatus]) -> Mapping[TaskId, int]:
        """Returns the count of each task that was ever seen, with what ``tasks`` report now."""
        for task in tasks:
            self._counts.take(task.task_id, task.records_processed)
        return self._counts.counts


RATE_WINDOW_S = 3.0
"""Seconds over which rates are averaged: shorter times make them flicker, longer ones hide a stall."""


class Rates(Generic[K]):
    """Rates of counts, such as the records of each task from :class:`Processed`."""

    def __init__(self) -> None:
        self._history: deque[tuple[float, Mapping[K, int]]] = deque()

    def of(self, counts: Mapping[K, int], now_s: float) -> dict[K, float] | None:
        """Returns each rate per second, with what the ``counts`` are now; None at the first call, because a rate needs
        two. A count that was not known before begins with a rate of 0. ``now_s`` is any clock that only goes
        forward."""
        self._history.append((now_s, counts))
        while len(self._history) > 2 and now_s - self._history[1][0] >= RATE_WINDOW_S:
            self._history.popleft()
        then_s, before = self._history[0]
        if now_s <= then_s:
            return None
        return {key: (count - before.get(key, count)) / (now_s - then_s) for key, count in counts.items()}
