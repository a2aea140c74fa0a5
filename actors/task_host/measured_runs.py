"""Decides which runs of an actor's tasks are measured, so that measuring takes about half a percent of the time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.tasks.measuring.operator_meter import OperatorMeter, Overhead, calibrated

_BUDGET = 0.003
"""Share of the thread's CPU time that measuring may take, as estimated: in truth it takes up to twice as much."""
_OF_IDLE_TIME = 0.1
"""Least share of the time by the clock that counts as CPU time: an idle thread has time for measuring."""
_FIRST_SHARE = 1 / 64
_LEAST_SHARE = 1 / 2000
_ADJUST_EACH_S = 0.2
_NEW = 0.2
"""Weight of the newest estimate in the mean: at a high load only a few runs are measured between two."""


class MeasuredRuns:
    """Picks runs at random: a fixed interval could always meet, or always miss, the same part of a task's work.

    A run is one call that a task gets: some 2 ms of records, the punctuators that are due, a step of a commit. One per
    actor. ``cpu_s``: CPU time of its thread. ``overhead``: by default, as measured on this machine.
    """

    def __init__(
        self,
        now_s: Callable[[], float],
        cpu_s: Callable[[], float],
        overhead: Overhead | None = None,
        random: Callable[[], float] | None = None,
    ) -> None:
        self.now_s = now_s
        self._overhead = overhead if overhead is not None else calibrated(now_s)
        self._random = random if random is not None else Random(0).random
        self.share = _FIRST_SHARE
        """Share of the runs that are measured."""
        self._cpu_s = cpu_s
        self._adjusted_s, self._adjusted_cpu_s = now_s(), cpu_s()
        self._all_would_take_s = 0.0
        self._mean: float | None = None
        """Seconds for each second of CPU time that measuring all runs would take."""

    def meter(self) -> OperatorMeter:
        """Returns a meter for another task."""
        return OperatorMeter(self.now_s, self._overhead)

    def pick(self, often: float = 1.0) -> float:
        """Returns the number of runs that the next one stands for; 0 if it is not measured. ``often``: so many times as
        many runs of this kind are measured as of others."""
        share = min(1.0, often * self.share)
        if share < 1 and self._random() >= share:
            return 0.0
        return 1 / share

    def measured(self, weight: float, cost_s: float, often: float = 1.0) -> None:
        """Note that measuring a run of this weight took ``cost_s``, and adjust the share from time to time."""
        self._all_would_take_s += often * weight * cost_s
        now_s = self.now_s()
        elapsed_s = now_s - self._adjusted_s
        if elapsed_s >= _ADJUST_EACH_S:
            cpu_s = self._cpu_s()
            busy_s = max(cpu_s - self._adjusted_cpu_s, _OF_IDLE_TIME * elapsed_s)
            newest = self._all_would_take_s / busy_s
            self._mean = newest if self._mean is None else _NEW * newest + (1 - _NEW) * self._mean
            wanted = _BUDGET / self._mean if self._mean > 0 else 1.0
            self.share = max(_LEAST_SHARE, min(1.0, wanted, 2 * self.share))
            self._adjusted_s, self._adjusted_cpu_s, self._all_would_take_s = now_s, cpu_s, 0.0
