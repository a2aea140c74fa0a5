"""Finds the task that gets far more records than the other tasks of its sub-topology: few keys have most records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.actors.status import TaskState, TaskStatus
from penstock.common.ids import TopicPartition
from penstock.common.metric_names import TASK

_LEAST_TASKS = 3
_TIMES = 2.0
"""A task gets too much from this many times the mean of the records that the others get."""
_SHARE_OF_LAG = 0.8


@dataclass(frozen=True)
class Skew:
    """The shares that one task has of the records that its sub-topology processes, and of those that wait for it.
    ``source``: the partition in which most of its records wait."""

    processed: float
    waiting: float
    source: TopicPartition


def skew_of(task: TaskStatus, tasks: Iterable[TaskStatus]) -> Skew | None:
    """Returns the skew of a sub-topology if ``task`` is the one that gets too much; None if it is not. ``tasks``: all
    that are reported.

    A task that catches up after its actor was replaced also has the lag for itself, and processes more than others. But
    it has been given less than they have, since it began.
    """
    others = [
        each
        for each in tasks
        if each.task_id.subtopology == task.task_id.subtopology
        and each.task_id != task.task_id
        and each.state is TaskState.RUNNING
    ]
    rate = _rate(task)
    if len(others) + 1 < _LEAST_TASKS or rate is None or not task.lag or not task.lags:
        return None
    rates = [found for each in others if (found := _rate(each)) is not None]
    lag = sum(each.lag or 0 for each in others)
    waiting = task.lag / (task.lag + lag)
    given = sum(map(_given, others)) / len(others)
    if len(rates) < len(others) or waiting < _SHARE_OF_LAG or _given(task) < given:
        return None
    if not rate or rate < _TIMES * sum(rates) / len(rates):
        return None  # nor if none of them processes anything
    source = max(task.lags, key=lambda at: (task.lags[at], at))
    return Skew(rate / (rate + sum(rates)), waiting, source)


def _rate(task: TaskStatus) -> float | None:
    value = task.measured.get((TASK, "process-rate"))
    return float(value) if isinstance(value, int | float) else None


def _given(task: TaskStatus) -> int:
    return task.records_processed + (task.lag or 0)
