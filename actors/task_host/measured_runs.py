"""Decides which runs of an actor's tasks are measured, so that measuring takes about half a percent of the time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.tasks.measuring.operator_meter import OperatorMeter, Overhead, calibrated

_BUDGET, _ANYWAY = 0.0015, 0.0005
"""Shares of the thread's CPU time that measuring may take, as estimated, for runs picked at random and for others. In
truth it takes up to three times as much: the first calls in a measured run find the caches of plain edges."""
_OF_IDLE_TIME = 0.1
"""Least share of the time by the clock that counts as CPU time: an idle thread has time for measuring."""
_LEAST_SHARE = 1 / 2000
_ADJUST_EACH_S = 0.2
_NEW = 0.2
"""Weight of an estimate of 0.2 s in the mean: at a high load only a few runs are measured in that time. The estimate of
a longer time weighs as much as several."""
_MOST_DOUBLINGS = 12
_TOO_MUCH_S = 0.002
"""After this cost the share is adjusted at once: an idle thread has got work."""
_MOST_SPARE_S = 0.005
"""Most seconds that are saved for runs that are measured anyway: the first runs of some ten tasks cost as much."""


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
        self.share = 1.0
        """Share of the runs that are measured. It falls as soon as that has cost too much."""
        self._cpu_s = cpu_s
        self._adjusted_s, self._adjusted_cpu_s = now_s(), cpu_s()
        self._took_s = self._all_would_take_s = 0.0
        self._mean: float | None = None
        """Seconds for each second of CPU time that measuring all runs would take."""
        self._spare_s, self._spare_at_s, self._spare_at_cpu_s = _MOST_SPARE_S, self._adjusted_s, self._adjusted_cpu_s
        """Seconds that the runs that are measured anyway may take, beside the budget of those picked at random."""
        self._anyway = False

    def meter(self) -> OperatorMeter:
        """Returns a meter for another task."""
        return OperatorMeter(self.now_s, self._overhead)

    def pick(self, anyway: bool = False) -> float:
        """Returns the number of runs that the next one stands for; 0 if it is not measured. ``anyway``: measure it
        also if it is not picked at random, unless such runs took too much time lately."""
        self._anyway = False
        if self.share < 1 and self._random() >= self.share:
            if not (anyway and self._has_spare_time()):
                return 0.0
            self._anyway = True
        return 1 / self.share

    def _has_spare_time(self) -> bool:
        now_s, cpu_s = self.now_s(), self._cpu_s()
        busy_s = _busy_s(now_s - self._spare_at_s, cpu_s - self._spare_at_cpu_s)
        self._spare_s = min(_MOST_SPARE_S, self._spare_s + _ANYWAY * busy_s)
        self._spare_at_s, self._spare_at_cpu_s = now_s, cpu_s
        return self._spare_s > 0

    def measured(self, weight: float, cost_s: float) -> None:
        """Note that measuring a run of this weight took ``cost_s``, and adjust the share from time to time."""
        if self._anyway:
            self._spare_s -= cost_s
        else:
            self._took_s += cost_s
            self._all_would_take_s += weight * cost_s
        now_s = self.now_s()
        elapsed_s = now_s - self._adjusted_s
        if elapsed_s >= _ADJUST_EACH_S or self._took_s >= _TOO_MUCH_S:
            self._adjust(now_s, elapsed_s)

    def _adjust(self, now_s: float, elapsed_s: float) -> None:
        cpu_s, times = self._cpu_s(), elapsed_s / _ADJUST_EACH_S
        newest = self._all_would_take_s / max(1e-6, _busy_s(elapsed_s, cpu_s - self._adjusted_cpu_s))
        old = (1 - _NEW) ** times if times >= 1 and self._mean is not None else 0.0
        self._mean = (1 - old) * newest + old * (self._mean or 0.0)
        wanted = _BUDGET / self._mean if self._mean > 0 else 1.0
        most = self.share * 2 ** min(times, _MOST_DOUBLINGS)
        self.share = max(_LEAST_SHARE, min(1.0, wanted, most))
        self._adjusted_s, self._adjusted_cpu_s, self._took_s, self._all_would_take_s = now_s, cpu_s, 0.0, 0.0


def _busy_s(elapsed_s: float, cpu_s: float) -> float:
    """Returns the CPU time of which measuring gets its share."""
    return max(cpu_s, _OF_IDLE_TIME * elapsed_s)
