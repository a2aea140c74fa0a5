"""The share of runs that are measured, from what measuring costs, and the budget of those that are measured anyway."""

from __future__ import annotations

import pytest

from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.tasks.measuring.operator_meter import Overhead


class Thread:
    """The clocks of a thread, the runs of its tasks, and the numbers that chance brings."""

    def __init__(self, share: float | None = None, overhead: Overhead | None = None, begun_s: float = 0.0) -> None:
        self.now_s, self.cpu_s = begun_s, 70.0
        self.random = 0.5
        self.rolled = 0
        self.runs = MeasuredRuns(lambda: self.now_s, lambda: self.cpu_s, overhead or Overhead(), self.roll)
        if share is not None:
            self.runs.share = share

    def roll(self) -> float:
        self.rolled += 1
        return self.random

    def works(self, seconds: float) -> None:
        self.now_s += seconds
        self.cpu_s += seconds

    def measure(self, cost_s: float, weight: float = 1.0) -> float:
        """Measures a run; returns the share from now on."""
        assert self.runs.pick() > 0
        self.runs.measured(weight, cost_s)
        return self.runs.share

    def measure_anyway(self, cost_s: float) -> bool:
        """Measures a run that chance does not pick, if there is time; returns True if there was."""
        self.random, self.runs.share = 0.999, 0.5
        weight = self.runs.pick(anyway=True)
        if weight:
            self.runs.measured(weight, cost_s)
        return weight > 0


def test_at_first_all_runs_are_measured_and_nothing_is_left_to_chance() -> None:
    thread = Thread()
    assert (thread.runs.pick(), thread.runs.pick(anyway=True)) == (1.0, 1.0)
    assert thread.rolled == 0


def test_a_run_that_chance_picks_stands_for_those_that_it_leaves_out() -> None:
    thread = Thread(share=0.25)
    thread.random = 0.2499
    assert thread.runs.pick() == 4.0
    thread.random = 0.25
    assert thread.runs.pick() == 0.0
    assert thread.runs.pick(anyway=True) == 4.0, "there is time for it"


def test_the_share_is_adjusted_each_fifth_of_a_second_so_that_measuring_takes_its_budget() -> None:
    thread = Thread()
    thread.works(0.15)
    assert thread.measure(0.0005) == 1.0, "it is too early"
    thread.works(0.05)
    assert thread.measure(0.0005) == pytest.approx(0.0015 / (0.001 / 0.2))


def test_a_run_counts_as_many_times_as_its_weight() -> None:
    thread = Thread(begun_s=4096.0)
    thread.works(0.25)
    assert thread.measure(0.001, weight=3.0) == pytest.approx(0.0015 / (0.003 / 0.25))


def test_a_cost_of_two_milliseconds_adjusts_the_share_at_once() -> None:
    thread = Thread()
    thread.works(0.01)
    assert thread.measure(0.0015) == 1.0
    assert thread.measure(0.0005) == pytest.approx(0.0015 / (0.002 / 0.01))
    thread.works(0.01)
    before = thread.runs.share
    thread.random = 0.0
    assert thread.measure(0.0015) == before, "the cost begins at nothing after the adjustment"


def test_an_estimate_of_a_fifth_of_a_second_is_a_fifth_of_the_mean_and_one_of_a_longer_time_is_more() -> None:
    thread = Thread()
    thread.works(0.2)
    thread.measure(0.0004)  # 0.002 of the time
    thread.random = 0.0
    thread.works(0.2)
    assert thread.measure(0.0008) == pytest.approx(0.0015 / (0.8 * 0.002 + 0.2 * 0.004))
    thread.works(0.4)
    assert thread.measure(0.0008) == pytest.approx(0.0015 / (0.64 * 0.0024 + 0.36 * 0.002))


def test_an_estimate_after_a_sudden_cost_replaces_the_mean() -> None:
    thread = Thread()
    thread.works(0.2)
    thread.measure(0.0004)
    thread.random = 0.0
    thread.works(0.1)
    assert thread.measure(0.002) == pytest.approx(0.0015 / 0.02)


def test_the_share_at_most_doubles_each_fifth_of_a_second() -> None:
    thread = Thread(share=0.01)
    thread.random = 0.0
    thread.works(0.2)
    assert thread.measure(0.0) == pytest.approx(0.02)
    thread.works(0.6)
    assert thread.measure(0.0) == pytest.approx(0.16)
    thread.works(0.8)
    assert thread.measure(0.0) == 1.0, "never more than all"
    thread.works(0.2)
    assert thread.measure(0.0) == 1.0


def test_all_runs_are_measured_if_that_takes_less_than_the_budget() -> None:
    thread = Thread()
    thread.works(0.2)
    assert thread.measure(0.000_15) == 1.0


def test_the_share_is_never_less_than_one_of_two_thousand() -> None:
    thread = Thread()
    thread.works(0.01)
    assert thread.measure(1000.0) == 1 / 2000


def test_after_a_day_without_a_measured_run_all_are_measured_again() -> None:
    thread = Thread(share=1 / 2000)
    thread.random = 0.0
    thread.now_s += 86_400.0
    assert thread.measure(0.0) == 1.0


def test_a_tenth_of_the_time_by_the_clock_counts_as_work_if_the_thread_is_idle() -> None:
    thread = Thread()
    thread.now_s += 0.4
    thread.cpu_s += 0.01
    assert thread.measure(0.001) == pytest.approx(0.0015 / (0.001 / 0.04))


def test_a_cost_at_the_very_start_leaves_the_least_share() -> None:
    assert Thread().measure(0.002) == pytest.approx(0.0015 / (0.002 / 1e-6), abs=1 / 2000)


def test_runs_that_are_measured_anyway_take_five_milliseconds_at_first_and_leave_the_share_alone() -> None:
    thread = Thread(share=0.5)
    assert [thread.measure_anyway(0.001) for _ in range(7)] == [True] * 5 + [False] * 2
    thread.works(0.2)
    thread.random = 0.0
    assert thread.measure(0.000_15) == 1.0, "its cost is the only one that the share follows"


def test_the_time_for_runs_that_are_measured_anyway_grows_with_the_work_up_to_five_milliseconds() -> None:
    thread = Thread(share=0.5)
    assert thread.measure_anyway(0.005)
    thread.works(2.0)
    assert thread.measure_anyway(0.0011), "there is a millisecond"
    assert not thread.measure_anyway(0.001)
    thread.works(0.1)
    assert not thread.measure_anyway(0.001), "what was taken too much is made good"
    thread.works(0.2)
    assert thread.measure_anyway(0.000_05)
    thread.works(1000.0)
    assert [thread.measure_anyway(0.001) for _ in range(6)] == [True] * 5 + [False]


def test_an_idle_thread_has_a_tenth_of_the_time_for_runs_that_are_measured_anyway() -> None:
    thread = Thread(share=0.5)
    assert thread.measure_anyway(0.005)
    thread.now_s += 20.0
    assert thread.measure_anyway(0.0009)
    assert thread.measure_anyway(0.0002)
    assert not thread.measure_anyway(0.001)


def test_a_run_that_chance_picks_after_one_that_is_measured_anyway_takes_of_its_own_budget() -> None:
    thread = Thread(share=0.5)
    assert thread.measure_anyway(0.001)
    thread.works(0.2)
    thread.random = 0.0
    assert thread.measure(0.01, weight=2.0) == pytest.approx(0.0015 / (0.02 / 0.2))
    assert [thread.measure_anyway(0.001) for _ in range(5)] == [True] * 5  # 4.1 ms were left


def test_meters_have_the_clock_and_the_overhead_of_the_thread() -> None:
    thread = Thread(overhead=Overhead(0.25, 0.5))
    meter = thread.runs.meter()
    timed = meter._timed("node", lambda: thread.works(3.0))
    meter.begin()
    timed()
    assert meter.end().longer_s == 0.75
    assert meter.nodes["node"].self_s == 2.75


def test_an_overhead_that_is_not_given_is_measured_by_the_clock() -> None:
    ticks = iter(range(10**9))
    meter = MeasuredRuns(lambda: next(ticks) * 1e-6, lambda: 0.0).meter()
    meter._timed("node", lambda: None)()
    assert meter.end().longer_s > 1e-6


def test_chance_is_the_same_in_each_test_and_picks_its_share() -> None:
    one, other = (MeasuredRuns(lambda: 0.0, lambda: 0.0) for _ in range(2))
    one.share = other.share = 0.25
    picked = [one.pick() > 0 for _ in range(1000)]
    assert picked == [other.pick() > 0 for _ in range(1000)]
    assert 200 < sum(picked) < 300
