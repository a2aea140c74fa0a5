"""Keeps the samples of the last hour, at the finest step that the budget allows."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from penstock.cluster.application_history import BUSY_UNKNOWN, FINEST_STEP_MS, HOUR_MS, Flow, Sample
from penstock.cluster.findings import Finding, Level

T = TypeVar("T")
SAMPLES_BYTES = 4_400_000
"""Most bytes that all samples together may need."""
_BYTES_PER_TASK = 4 + 4 + 1 + 2 + 1
_BYTES_PER_OPERATOR = 4 + 1
_BYTES_PER_TOPIC = 4 + 4
_BYTES_PER_SAMPLE = 2000
"""The objects of one sample, without their content, its totals, and a sentence."""
_BYTES_PER_ID = 80
MOST_TASK_LISTS = 3
"""Most different lists of tasks. A topic rarely gets partitions, and each list takes as much as many samples."""


MOST_FLOW_LISTS = 20
"""Most different lists of operators and topics. Their names come in the first minute, and with another version."""

_NO_FLOW = Flow()
_NO_TASKS: dict[str, Any] = {
    "tasks": (), "records_per_s": array("f"), "behind_s": array("f"), "busy": array("B"), "actor": array("H"),
    "state": array("B"),
}  # fmt: skip
"""All samples without tasks share these objects, so that an hour of them is small when it is sent."""


def step_for(tasks: int, actors: int, operators: int = 0, topics: int = 0) -> int:
    """Returns the finest step, in ms, at which an hour of samples of this many tasks, actors, operators and topics fits
    into the budget, even if each sample has a list of actors of its own, as when they fail again and again."""
    step_ms = FINEST_STEP_MS
    room = SAMPLES_BYTES - (MOST_TASK_LISTS * 8 + _BYTES_PER_ID) * tasks - _BYTES_PER_ID * actors
    room -= (MOST_FLOW_LISTS * 8 + _BYTES_PER_ID) * (operators + topics)
    each = tasks * _BYTES_PER_TASK + 8 * actors + _BYTES_PER_SAMPLE
    each += operators * _BYTES_PER_OPERATOR + topics * _BYTES_PER_TOPIC
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
        flow = sample.flow
        counts = len(sample.tasks), len(sample.actors), len(flow.operators), len(flow.topics)
        while self.step_ms < step_for(*counts):
            self._coarsen()
        oldest = self._slot(sample) - HOUR_MS // self.step_ms
        while self._slot(self._kept[0]) <= oldest or self._has_many_lists():
            self._kept.popleft()

    def between(self, from_ms: int, to_ms: int, tasks: bool = True, details: bool = True) -> tuple[Sample, ...]:
        """Returns the samples of these times, both included, in order. ``tasks``: with the figures of each task;
        ``details``: with those of operators and topics, and the findings."""
        found = tuple(it for it in self._kept if from_ms <= it.at_ms <= to_ms)
        if not tasks:
            found = tuple(replace(it, **_NO_TASKS) for it in found)
        return found if details else tuple(replace(it, flow=_NO_FLOW, finding=None) for it in found)

    def _has_many_lists(self) -> bool:
        if len({id(it.tasks) for it in self._kept}) > MOST_TASK_LISTS:
            return True
        operators, topics = {id(it.flow.operators) for it in self._kept}, {id(it.flow.topics) for it in self._kept}
        return max(len(operators), len(topics)) > MOST_FLOW_LISTS

    def _slot(self, sample: Sample) -> int:
        return sample.at_ms // self.step_ms

    def _sharing(self, sample: Sample) -> Sample:
        """Returns the sample with the lists of names of an earlier one, if they are equal."""
        before = self._kept[-1] if self._kept else sample
        tasks, actors = _shared(before.tasks, sample.tasks), _shared(before.actors, sample.actors)
        operators = _shared(before.flow.operators, sample.flow.operators)
        flow = replace(sample.flow, operators=operators, topics=_shared(before.flow.topics, sample.flow.topics))
        finding = before.finding if before.finding == sample.finding else sample.finding
        return replace(sample, tasks=tasks, actors=actors, flow=flow, finding=finding)

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
    indexes = _indexes(one.tasks, later.tasks)
    return replace(
        later,
        at_ms=one.at_ms,
        totals=totals,
        records_per_s=_means(one.records_per_s, later.records_per_s, indexes),
        behind_s=array("f", map(_largest, _at(one.behind_s, indexes), later.behind_s)),
        busy=_mean_shares(one.busy, later.busy, indexes),
        flow=_merged_flow(one.flow, later.flow),
        finding=_worse(one.finding, later.finding),
    )


def _merged_flow(one: Flow, later: Flow) -> Flow:
    operators, topics = _indexes(one.operators, later.operators), _indexes(one.topics, later.topics)
    return replace(
        later,
        entered_per_s=_means(one.entered_per_s, later.entered_per_s, operators),
        busy=_mean_shares(one.busy, later.busy, operators),
        read_per_s=_means(one.read_per_s, later.read_per_s, topics),
        written_per_s=_means(one.written_per_s, later.written_per_s, topics),
    )


def _indexes(before: Iterable[T], now: Iterable[T]) -> list[int | None]:
    known = {each: index for index, each in enumerate(before)}
    return [known.get(each) for each in now]


def _at(column: array[float], indexes: Iterable[int | None]) -> Iterator[float]:
    return (math.nan if index is None else column[index] for index in indexes)


def _means(one: array[float], later: array[float], indexes: Iterable[int | None]) -> array[float]:
    return array("f", map(_mean, _at(one, indexes), later))


def _mean_shares(one: array[int], later: array[int], indexes: Iterable[int | None]) -> array[int]:
    before = (BUSY_UNKNOWN if index is None else one[index] for index in indexes)
    return array("B", map(_mean_busy, before, later))


def _worse(one: Finding | None, later: Finding | None) -> Finding | None:
    """Returns the worse of two findings, of equal ones the later."""
    order = list(Level)
    return max((each for each in (later, one) if each is not None), key=lambda it: order.index(it.level), default=None)


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
