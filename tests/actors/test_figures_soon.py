"""Figures of operators are there within ten seconds, whatever the load, and whatever commits take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import MOST_RECORDS, RECORDS
from penstock.tasks.measuring.operator_meter import OperatorMeter
from tests.actors.rig import Rig, settle
from tests.actors.test_metrics import task_of
from tests.actors.test_operator_figures import FREE, Play, filtering


class Actor:
    """The clocks of an actor, and the choice of the runs that are measured."""

    def __init__(self, seed: int = 11) -> None:
        self.now_s = self.cpu_s = 1000.0
        self.runs = MeasuredRuns(lambda: self.now_s, lambda: self.cpu_s, FREE, Random(seed).random)

    def works(self, seconds: float) -> None:
        self.now_s += seconds
        self.cpu_s += seconds


class CostlyPlay(Play):
    """A task of ``actor``. ``sleeps``: its second operator takes no CPU time. ``costs_s``: seconds by which a measured
    run is longer than others."""

    def __init__(self, actor: Actor, *, sleeps: bool = False, costs_s: float = 0.001) -> None:
        self.actor, self.sleeps, self.spent_s = actor, sleeps, 0.0
        super().__init__(actor.runs)
        self.meter.swap(lambda edge: actor.works(costs_s / 2), self._spend_a, self._spend_a)
        self.measured()

    def clock(self) -> float:
        return self.actor.now_s

    def spend(self, seconds: float, cpu_s: float | None = None) -> None:
        self.actor.now_s += seconds
        self.actor.cpu_s += seconds if cpu_s is None else cpu_s
        self.spent_s += seconds

    def _spend_a(self, *record: object) -> None:
        self.spend(self.a_s)
        self._number += 1
        if self._number % 10 < self.passed_of_10:
            self._b(*record)

    def _spend_b(self, *record: object) -> None:
        self.spend(self.b_s, 0.0 if self.sleeps else None)

    def run(self, records: int) -> None:
        """Process records as a task's host does."""
        begun_s = self.clock()
        if self.figures.begin(RECORDS, lambda: records > 0):
            records = min(records, MOST_RECORDS)
        for _ in range(records):
            self.head("k", "v", 1)
        self.figures.end(RECORDS, self.clock() - begun_s, records, idle=not records)

    def flush(self, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self._b("k", "v", 1)
            yield

    def measured(self) -> dict[tuple[str, str], float]:
        self.now_s = self.actor.now_s
        return super().measured()


def until(actor: Actor, play: CostlyPlay, end_s: float, records: int) -> None:
    """Let ``play`` process runs of so many records, and report twice a second, until ``end_s``."""
    reported_s = 0.0
    while actor.now_s < end_s:
        play.run(records)
        if actor.now_s - reported_s >= 0.5:
            reported_s = actor.now_s
            play.measured()


def test_with_little_to_do_calls_that_find_nothing_leave_the_budget_to_those_that_find_records() -> None:
    actor = Actor()
    play = CostlyPlay(actor, costs_s=0.000_02)
    play.a_s, play.b_s, play.passed_of_10 = 0.0001, 0.3, 0  # the second operator gets what commits flush
    for tick in range(2200):
        actor.now_s += 0.005
        play.run(1 if tick % 20 == 0 else 0)
        if tick % 100 == 0:
            play.measured()
        if tick == 2000:
            list(play.figures.steps(play.flush(3)))
    elapsed_s = actor.now_s - 1000.0
    measured = play.measured()
    assert actor.runs.share > 0.5
    assert measured["records-rate", "source"] == pytest.approx(110 / elapsed_s, rel=0.01)
    assert measured["busy-ratio", "source"] == pytest.approx(110 * 0.0001 / elapsed_s, rel=0.05)
    assert measured["records-rate", "b"] == pytest.approx(3 / elapsed_s, rel=0.1)
    assert measured["busy-ratio", "b"] == pytest.approx(0.9 / elapsed_s, rel=0.1)


def test_eight_tasks_of_a_busy_actor_have_figures_each() -> None:
    actor = Actor()
    plays = [CostlyPlay(actor, costs_s=0.0001) for _ in range(8)]
    reported_s = 0.0
    for number, play in enumerate(plays):
        play.a_s, play.b_s = 0.000_05, 0.000_05 * (number + 1)
    while actor.now_s < 1010.0:
        for play in plays:
            play.run(int(0.002 / (play.a_s + play.b_s)))
        if actor.now_s - reported_s >= 0.5:
            reported_s = actor.now_s
            for play in plays:
                play.measured()
    assert actor.runs.share < 0.05
    elapsed_s = actor.now_s - 1000.0
    for play in plays:
        measured = play.measured()
        spent_s = play.spent_s / elapsed_s
        busy_s = play.spent_s * play.b_s / (play.a_s + play.b_s) / elapsed_s
        assert measured["busy-ratio", "b"] == pytest.approx(busy_s, rel=0.2)
        assert measured["busy-ratio", "b"] + measured["busy-ratio", "source"] <= 1.05 * spent_s
        assert measured["records-rate", "b"] == pytest.approx(play._number / elapsed_s, rel=0.05)


def test_an_operator_that_sleeps_is_the_busiest_from_the_first_batch_on() -> None:
    actor = Actor()
    play = CostlyPlay(actor, sleeps=True)
    play.a_s, play.b_s = 0.000_01, 0.005
    play.run(100)  # the first batch: half a second
    until(actor, play, 1010.0, 1)
    measured = play.measured()
    assert measured["busy-ratio", "b"] == pytest.approx(0.99, abs=0.1)
    assert measured["busy-ratio", "source"] < 0.01


def test_an_operator_that_becomes_slow_under_a_high_load_is_the_busiest_ten_seconds_later() -> None:
    actor = Actor()
    play = CostlyPlay(actor, sleeps=True)
    play.a_s = play.b_s = 0.000_05
    until(actor, play, 1040.0, 20)
    assert actor.runs.share < 0.02
    play.b_s = 0.03
    play.run(20)
    until(actor, play, 1050.0, 1)
    measured = play.measured()  # of some 35 s, ten of which it is slow
    assert measured["busy-ratio", "b"] > 1.5 * measured["busy-ratio", "source"] > 0
    until(actor, play, 1090.0, 1)
    assert play.measured()["busy-ratio", "b"] == pytest.approx(0.98, abs=0.1)


def test_the_time_of_long_runs_that_were_not_measured_is_left_out() -> None:
    play = Play(share=1.0)
    play.measured()
    for _ in range(100):
        play.process(10)  # 2 ms each
    play.runs.pick = lambda anyway=False: 0.0  # type: ignore[method-assign]
    play.b_s = 0.01
    play.process(10)  # 100 ms, as if the process had lost its CPU
    play.idle_until(1010.0)
    measured = play.measured()
    assert measured["records-rate", "b"] == pytest.approx(101.0)
    assert measured["busy-ratio", "b"] == pytest.approx(101 * 10 * 0.0001 / 10)
    assert measured["busy-ratio", "source"] == pytest.approx(101 * 10 * 0.0001 / 10)


def test_runs_that_are_measured_anyway_take_no_more_than_their_own_budget() -> None:
    actor = Actor()
    actor.runs.share = 1e-9
    picked = 0
    for _ in range(50_000):
        actor.works(0.002)
        if weight := actor.runs.pick(anyway=True):
            picked += 1
            actor.runs.measured(weight, 0.001)
            actor.runs.share = 1e-9
    assert 5 <= picked <= 5 + 0.0005 * 100 / 0.001 + 1


def test_a_burst_after_idle_time_is_measured_in_its_first_milliseconds_alone() -> None:
    actor = Actor()
    taken_s = 0.0
    for _ in range(20):
        for _ in range(10):
            actor.now_s += 1.0
            if weight := actor.runs.pick(anyway=True):
                actor.runs.measured(weight, 0.000_01)  # little to do
        assert actor.runs.share == 1.0
        for _ in range(100):
            actor.works(0.002)
            if weight := actor.runs.pick():
                actor.works(0.001)
                taken_s += 0.001
                actor.runs.measured(weight, 0.001)
    assert taken_s <= 20 * 0.004


def test_a_measured_run_is_short_and_a_call_that_finds_nothing_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, filtering())
    loop = rig.running()
    begun: list[OperatorMeter] = []
    begin = OperatorMeter.begin

    def counted(meter: OperatorMeter) -> None:
        begun.append(meter)
        begin(meter)

    monkeypatch.setattr(OperatorMeter, "begin", counted)
    for _ in range(20):
        loop.step()
    assert not begun
    rig.write("in", *(("a", str(number % 10), number + 1) for number in range(350)))
    settle(loop)
    assert task_of(loop).records_processed == 350
    assert len(begun) == 4
