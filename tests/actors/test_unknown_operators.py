"""Figures of operators are absent if too few runs were measured, and are those of the last half minute."""

from __future__ import annotations

import pytest

from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import COMMIT, PUNCTUATORS, RECORDS, OperatorFigures
from penstock.tasks.measuring.operator_meter import Overhead
from tests.actors.test_operator_estimates import SHORT_S, Scripted, scripted


def usual(task: Scripted, runs: int, weight: float = 1.0) -> None:
    for _ in range(runs):
        task.run(records=4, weight=weight, source=(4, SHORT_S / 8), b=(2, SHORT_S / 4))


# ---- too few measured runs ----


def test_four_measured_runs_of_five_are_too_few_and_five_of_many_are_enough() -> None:
    task = scripted()
    usual(task, 4)
    usual(task, 1, weight=0.0)
    task.idle_until(2.0)
    assert task.measured() == {}
    usual(task, 1)
    usual(task, 94, weight=0.0)
    assert task.records("b", of_s=4.0) == pytest.approx(200.0)


def test_a_few_runs_are_enough_if_all_were_measured() -> None:
    task = scripted()
    usual(task, 3)
    assert task.records("b") == 6.0


def test_figures_are_absent_if_more_than_half_of_the_time_is_unknown() -> None:
    for unknown_s, known in ((1.0, True), (1.125, False)):
        task = scripted()
        task.run(records=1, source=(1, 1.0))
        task.run(PUNCTUATORS, weight=0.0, rest_s=unknown_s)
        task.idle_until(32.0)
        assert bool(task.measured()) is known


def test_the_time_of_commits_that_were_known_once_is_no_reason_for_absent_figures() -> None:
    for kind in (COMMIT, PUNCTUATORS):
        for once, known in ((5, True), (4, False)):
            task = Scripted()
            for _ in range(once):
                task.run(kind, b=(1, 0.25))
            task.idle_until(16.0)
            task.measured()
            task.run(records=1, source=(1, 1.0))
            task.run(kind, weight=0.0, rest_s=8.0)
            task.idle_until(32.0)
            measured = task.measured()
            assert bool(measured) is known
            assert ("busy-ratio", "b") not in measured


def test_commits_and_punctuators_that_were_known_once_are_left_out_together() -> None:
    task = Scripted()
    for kind in (COMMIT, PUNCTUATORS):
        for _ in range(5):
            task.run(kind, b=(1, 0.25))
    task.measured()
    task.run(records=1, source=(1, 0.5))
    for kind in (COMMIT, PUNCTUATORS):
        task.run(kind, weight=0.0, rest_s=4.0)
    for _ in range(64):
        task.run(records=1, weight=0.0, rest_s=1 / 64)  # a second that is unknown
    assert task.records("source") == pytest.approx(32.0 / 29.5)  # 2.5 s were before the first look


def test_the_time_of_commits_that_were_known_once_belongs_to_the_time_of_which_half_may_be_unknown() -> None:
    task = Scripted()
    for _ in range(5):
        task.run(COMMIT, b=(1, 0.25))
    task.measured()
    task.run(records=1, source=(1, 1.0))
    task.run(COMMIT, weight=0.0, rest_s=8.0)
    task.run(PUNCTUATORS, weight=0.0, rest_s=2.0)
    assert task.records("source") == pytest.approx(32.0 / 30.75)


@pytest.mark.parametrize("seconds", [SHORT_S, 0.5])
def test_usual_and_long_runs_that_were_known_once_are_unknown_later(seconds: float) -> None:
    task = Scripted()
    for _ in range(5):
        task.run(records=1, source=(1, seconds))
    task.measured()
    for _ in range(5):
        task.run(COMMIT, other=(1, seconds))
    for _ in range(8):
        task.run(records=1, weight=0.0, rest_s=seconds)
    task.idle_until(32.0)
    assert task.measured() == {}


def test_an_operator_that_no_record_was_seen_to_enter_has_no_figures_while_some_time_is_unknown() -> None:
    task = scripted()
    task.run(records=1, source=(1, 1.0))
    task.run(COMMIT, weight=0.0, rest_s=0.5)
    task.idle_until(32.0)
    assert task.measured() == {("busy-ratio", "source"): 1.0 / 32, ("records-rate", "source"): 1.0 / 32}


def test_an_operator_that_no_record_enters_has_nothing_if_all_time_is_known() -> None:
    task = scripted()
    task.run(records=1, source=(1, 1.0))
    assert (task.busy_s("b"), task.records("b")) == (0.0, 0.0)


def test_an_operator_that_runs_of_an_unknown_kind_entered_has_no_figures_and_others_have() -> None:
    task = Scripted()
    task.run(COMMIT, other=(1, 0.25))
    task.run(COMMIT, b=(0, 0.0))
    task.idle_until(16.0)
    task.measured()
    task.run(records=1, source=(1, 1.0), other=(1, 0.5), b=(1, 0.25))
    task.run(COMMIT, weight=0.0, rest_s=0.5)
    task.idle_until(32.0)
    assert {node for _, node in task.measured()} == {"source", "b"}


# ---- long runs ----


def test_long_runs_that_were_not_measured_count_as_if_their_records_took_the_usual_time() -> None:
    task = scripted()
    usual(task, 10)
    task.run(records=20, weight=0.0, rest_s=0.125)
    assert task.records("b") == 20 * 1.5
    assert task.busy_s("b") == pytest.approx(5 * SHORT_S * 1.5)


def test_long_runs_are_compared_with_usual_ones_of_the_same_half_minute() -> None:
    task = Scripted()
    for _ in range(100):
        task.run(records=1, weight=0.0, rest_s=SHORT_S)
    task.measured()
    usual(task, 10)
    task.run(records=20, weight=0.0, rest_s=0.125)
    assert task.records("b") == pytest.approx(20 * 1.5 * 32.0 / (32.0 - 100 * SHORT_S))


def test_long_runs_of_quick_records_count_by_their_time() -> None:
    task = scripted()
    usual(task, 128)  # a second
    task.run(records=4 * 128, weight=0.0, rest_s=0.5)
    assert task.records("b") == 256 * 1.5
    assert task.busy_s("b") == 0.5 * 1.5


def test_long_runs_count_by_their_records_if_usual_ones_take_no_time_by_the_clock() -> None:
    task = scripted()
    for _ in range(5):
        task.run(records=2, source=(2, 0.0), b=(1, 0.0))
    task.run(records=10, weight=0.0, rest_s=0.0625)
    task.run(COMMIT, other=(1, 1.0))
    assert task.records("b") == 5 * 2


def test_long_runs_are_unknown_if_usual_ones_are_or_have_no_records() -> None:
    for records in (0, 1):
        task = scripted()
        task.run(records=records, weight=1.0 - records, source=(1, SHORT_S))
        task.run(COMMIT, b=(1, 1.0))
        task.run(records=1, weight=0.0, rest_s=0.5)
        task.idle_until(32.0)
        assert ("records-rate", "other") not in task.measured()
        assert task.records("b") == 1.0


# ---- when ----


def test_figures_are_those_of_the_last_half_minute() -> None:
    task = scripted()
    task.idle_until(5.0)
    task.measured()
    task.run(COMMIT, b=(1, 1.0))
    task.figures.decoded("in", 1.0)
    task.idle_until(34.5)
    assert task.measured()["busy-ratio", "b"] == 1.0 / 34.5
    task.run(COMMIT, b=(2, 1.0))
    task.figures.decoded("in", 2.0)
    task.idle_until(40.0)
    assert task.measured() == {
        ("busy-ratio", "b"): 3.0 / 35,
        ("busy-ratio", "source"): 3.0 / 35,
        ("busy-ratio", "other"): 0.0,
        ("records-rate", "b"): 3.0 / 35,
        ("records-rate", "source"): 0.0,
        ("records-rate", "other"): 0.0,
    }
    task.idle_until(66.0)
    assert task.measured()["busy-ratio", "b"] == 2.0 / 31.5
    assert task.measured()["busy-ratio", "source"] == 2.0 / 31.5


def test_what_runs_before_the_last_half_minute_stood_for_is_forgotten() -> None:
    task = Scripted()
    for _ in range(64):
        task.run(records=64, weight=8.0, source=(64, SHORT_S / 64))
    task.idle_until(16.0)
    task.measured()
    usual(task, 5)
    usual(task, 15, weight=0.0)
    task.idle_until(32.0)
    assert task.measured()["records-rate", "source"] == 80 / 16
    assert task.measured()["records-rate", "b"] == 40 / 16
    assert task.measured()["busy-ratio", "b"] == pytest.approx(10 * SHORT_S / 16)


def test_totals_are_kept_each_five_seconds() -> None:
    task = scripted()
    for seconds in range(1, 37):
        task.idle_until(float(seconds))
        task.figures.decoded("in", 1.0)
        task.measured()
    assert [seconds - 1024.0 for seconds, *_ in task.figures._samples] == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]


def test_after_a_pause_figures_are_those_since_the_last_look_before_it() -> None:
    task = scripted()
    for seconds in (5.0, 10.0, 15.0, 20.0):
        task.idle_until(seconds)
        task.figures.decoded("in", 1.0)
        task.measured()
    task.figures.decoded("in", 2.0)
    task.idle_until(84.0)
    assert task.measured()["busy-ratio", "source"] == 2.0 / 64


def test_figures_are_at_most_a_second_old() -> None:
    task = scripted()
    task.figures.decoded("in", 0.5)
    task.idle_until(0.75)
    assert task.measured() == {}
    task.idle_until(1.0)
    assert task.measured()["busy-ratio", "source"] == 0.5
    task.figures.decoded("in", 0.5)
    task.idle_until(1.75)
    assert task.measured()["busy-ratio", "source"] == 0.5
    task.idle_until(2.0)
    assert task.measured()["busy-ratio", "source"] == 0.5
    task.figures.decoded("in", 1.0)
    task.idle_until(4.0)
    assert task.measured()["busy-ratio", "source"] == 0.5


def test_figures_are_kept_from_the_beginning_of_a_clock_that_begins_at_zero() -> None:
    now = [0.0]
    runs = MeasuredRuns(lambda: now[0], lambda: 0.0, Overhead())
    figures = OperatorFigures(runs, {})
    figures.new_meter().swap(lambda edge: None, print, print)
    assert figures.measured(0.0) == {}
    figures.end(RECORDS, 0.0, 1)
    now[0] = 1.0
    figures.decoded("in", 0.5)
    assert figures.measured(1.0) != {}


def test_there_are_no_figures_while_the_task_has_no_edges() -> None:
    runs = MeasuredRuns(lambda: 0.0, lambda: 0.0, Overhead())
    figures = OperatorFigures(runs, {})
    for now_s in (1.0, 2.0):
        assert figures.measured(now_s) == {}
    figures.new_meter()
    figures.decoded("in", 0.5)
    assert figures.measured(3.0) == {}


def test_figures_outlive_the_meter_of_a_task_that_is_made_again() -> None:
    task = scripted()
    task.run(COMMIT, b=(1, 1.0))
    again = task.figures.new_meter()
    assert again is not task.meter
    again.swap(lambda edge: None, print, print)
    again._timed("b", task.spend)
    assert task.busy_s("b") == 1.0
