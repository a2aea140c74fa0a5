"""Keeps the samples of the last hour, at the finest step that the budget allows."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from penstock.cluster.application_history import BUSY_UNKNOWN, FINEST_STEP_MS, HOUR_MS, Sample

T = TypeVar("T")
SAMPLES_BYTES = 4_400_000
"""Most bytes that all samples together may need."""
_BYTES_PER_TASK = 4 + 4 + 1 + 2
_BYTES_PER_SAMPLE = 900
"""The objects of one sample, without their content, and its totals."""
_BYTES_PER_ID = 80
MOST_TASK_LISTS = 3
"""Most different lists of tasks. A topic rarely gets partitions, and each list takes as much as many samples."""


def step_for(tasks: int, actors: int) -> int:
    """Returns the finest step, in ms, at which an hour of samples of this many tasks and actors fits into the budget,
    even if each sample has a list of actors of its own, as when they fail again and again."""
    step_ms = FINEST_STEP_MS
    room = SAMPLES_BYTES - (MOST_TASK_LISTS * 8 + _BYTES_PER_ID) * tasks - _BYTES_PER_ID * actors
    each = tasks * _BYTES_PER_TASK + 8 * actors + _BYTES_PER_SAMPLE
    while HOUR_MS // step_ms * each > room and step_ms < HOUR_MS:
        step_ms *= 2
    return step_ms


class Samples:
    """A ring buffer of an hour. The step becomes coarser when there are more tasks, and never finer again."""

    def __init__(self) -> None:
        self.step_ms = FINEST_STEP_MS
        self._kept: deque[Sample] = deque()

    def is_due(self, at_ms: int) -> bool:
        """True if no sample of this step was taken yet, or the clock was set back."""
        return not self._kept or at_ms // self.step_ms != self._kept[-1].at_ms // self.step_ms

    def add(self, sample: Sample) -> None:
        """Add the sample of a step. Those that are older than an hour go, and so do those of a time that is still to
        come, because the clock was set back."""
        while self._kept and self._slot(self._kept[-1]) >= self._slot(sample):
            self._kept.pop()
        self._kept.append(self._sharing(sample))
        while self.step_ms < step_for(len(sample.tasks), len(sample.actors)):
            self._coarsen()
        oldest = self._slot(sample) - HOUR_MS // self.step_ms
        while self._slot(self._kept[0]) <= oldest or len({id(it.tasks) for it in self._kept}) > MOST_TASK_LISTS:
            self._kept.popleft()

    def between(self, from_ms: int, to_ms: int) -> tuple[Sample, ...]:
        """Returns the samples of these times, both included, in order."""
        return tuple(it for it in self._kept if from_ms <= it.at_ms <= to_ms)

    def _slot(self, sample: Sample) -> int:
        return sample.at_ms // self.step_ms

    def _sharing(self, sample: Sample) -> Sample:
        """Returns the sample with the lists of names of an earlier one, if they are equal."""
        before = self._kept[-1] if self._kept else sample
        tasks, actors = _shared(before.tasks, sample.tasks), _shared(before.actors, sample.actors)
        columns = sample.records_per_s, sample.behind_s, sample.busy, sample.actor
        return Sample(sample.at_ms, sample.totals, tasks, actors, *columns)

    def _coarsen(self) -> None:
        self.step_ms *= 2
        kept: deque[Sample] = deque()
        for sample in self._kept:
            if kept and self._slot(kept[-1]) == self._slot(sample):
                sample = merged(kept.pop(), sample)
            kept.append(sample)
        self._kept = kept


def _shared(before: tuple[T, ...], now: tuple[T, ...]) -> tuple[T, ...]:
    """Returns ``now`` with the objects of ``before``; ``before`` itself if they are equal."""
    if before == now:
        return before
    known = {each: each for each in before}
    return tuple(known.get(each, each) for each in now)


def merged(one: Sample, later: Sample) -> Sample:
    """Returns the sample of a step that takes the place of two: rates are averaged, and of all other figures the later
    is kept, except that dead letters are added up and the longest delay counts."""
    first, last = one.totals, later.totals
    totals = array(
        "d",
        [
            _mean(first[0], last[0]), last[1], _largest(first[2], last[2]), _mean(first[3], last[3]),
            _largest(first[4], last[4]), _sum(first[5], last[5]),
        ],
    )  # fmt: skip
    before = dict(zip(one.tasks, range(len(one.tasks)), strict=True))
    indexes = [before.get(task) for task in later.tasks]
    rates = array("f", map(_mean, _at(one.records_per_s, indexes), later.records_per_s))
    behind = array("f", map(_largest, _at(one.behind_s, indexes), later.behind_s))
    busy = array("B", (_mean_busy(old, new) for old, new in zip(_busy_at(one, indexes), later.busy, strict=True)))
    return Sample(one.at_ms, totals, later.tasks, later.actors, rates, behind, busy, later.actor)


def _at(column: array[float], indexes: Iterable[int | None]) -> Iterator[float]:
    return (math.nan if index is None else column[index] for index in indexes)


def _busy_at(sample: Sample, indexes: Iterable[int | None]) -> Iterator[int]:
    return (BUSY_UNKNOWN if index is None else sample.busy[index] for index in indexes)


def _known(*values: float) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _mean(one: float, other: float) -> float:
    known = _known(one, other)
    return sum(known) / len(known) if known else math.nan


def _largest(one: float, other: float) -> float:
    return max(_known(one, other), default=math.nan)


def _sum(one: float, other: float) -> float:
    known = _known(one, other)
    return sum(known) if known else math.nan


def _mean_busy(one: int, other: int) -> int:
    known = [value for value in (one, other) if value != BUSY_UNKNOWN]
    return round(sum(known) / len(known)) if known else BUSY_UNKNOWN
