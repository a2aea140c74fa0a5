"""The figures of operators from runs of each kind, exact to the record. A measured run stands for several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import COMMIT, LONG, PUNCTUATORS, RECORDS, OperatorFigures
from penstock.tasks.measuring.operator_meter import Overhead

SHORT_S = 1 / 128
"""Seconds of a run with records that is not a long one."""


class Chosen(MeasuredRuns):
    """Measures the runs that the test chooses: those with a ``weight``."""

    def __init__(self, overhead: Overhead) -> None:
        self.clock_s, self.weight = 1024.0, 1.0
        super().__init__(lambda: self.clock_s, lambda: 0.0, overhead)
        self.asked: list[bool] = []
        self.noted: list[tuple[float, float]] = []

    def pick(self, anyway: bool = False) -> float:
        self.asked.append(anyway)
        return self.weight

    def measured(self, weight: float, cost_s: float) -> None:
        self.noted.append((weight, cost_s))


class Scripted:
    """A task whose runs do what the test orders."""

    def __init__(self, sources: Mapping[str, str] | None = None, overhead: Overhead | None = None) -> None:
        self.runs = Chosen(overhead or Overhead())
        self.figures = OperatorFigures(self.runs, sources or {"in": "source"})
        self.meter = self.figures.new_meter()
        self.meter.swap(lambda edge: None, print, print)
        self._timed = {node: self.meter._timed(node, self.spend) for node in ("source", "other", "b")}

    def spend(self, seconds: float) -> None:
        self.runs.clock_s += seconds

    def run(
        self,
        kind: int = RECORDS,
        records: int = 0,
        rest_s: float = 0.0,
        weight: float = 1.0,
        **visits: tuple[int, float],
    ) -> float:
        """Plays a run and returns the result of :meth:`OperatorFigures.end`. ``visits``: for each node the number of
        records that enter it, and the seconds that each of them takes there. ``rest_s``: seconds in no node."""
        self.runs.weight, begun_s = weight, self.runs.clock_s
        self.figures.begin(kind)
        for node, (calls, seconds) in visits.items():
            for _ in range(calls):
                (self._timed[node] if self.meter.running else self.spend)(seconds)
        self.spend(rest_s)
        return self.figures.end(kind, self.runs.clock_s - begun_s, records)

    def idle_until(self, seconds: float) -> None:
        """Lets time pass until ``seconds`` after the start."""
        assert self.runs.clock_s <= 1024.0 + seconds
        self.runs.clock_s = 1024.0 + seconds

    def measured(self) -> dict[tuple[str, str], Any]:
        return {(name, node): each for (_, name, node), each in self.figures.measured(self.runs.clock_s).items()}

    def busy_s(self, node: str, of_s: float = 32.0) -> float:
        """Returns the seconds of a node when ``of_s`` have passed."""
        self.idle_until(of_s)
        return of_s * float(self.measured()["busy-ratio", node])

    def records(self, node: str, of_s: float = 32.0) -> float:
        self.idle_until(of_s)
        return of_s * float(self.measured()["records-rate", node])


def scripted(**options: Any) -> Scripted:
    """Returns a task whose time begins now."""
    task = Scripted(**options)
    assert task.measured() == {}
    return task


# ---- which runs are measured ----


def test_no_run_is_measured_before_the_meter_is_connected() -> None:
    runs = Chosen(Overhead())
    figures = OperatorFigures(runs, {})
    assert not figures.begin()
    meter = figures.new_meter()
    assert not figures.begin()
    assert not runs.asked
    meter.swap(lambda edge: None, print, print)
    assert figures.begin()
    assert meter.running


def test_a_run_that_chance_picks_is_measured_if_there_is_work() -> None:
    task = scripted()
    assert not task.figures.begin(RECORDS, lambda: False)
    assert not task.meter.running
    assert task.figures.begin(RECORDS, lambda: True)
    assert task.meter.running
    task.figures.end(RECORDS, 0.0)
    assert not task.meter.running


def test_work_is_looked_for_only_if_the_run_is_picked() -> None:
    task = scripted()
    task.runs.weight = 0.0
    assert not task.figures.begin(RECORDS, pytest.fail)


def test_the_first_five_runs_of_a_half_minute_are_measured_anyway_and_commits_and_punctuators_always() -> None:
    task = scripted()
    for _ in range(7):
        task.run(records=1)
    assert task.runs.asked == [True] * 5 + [False] * 2
    for kind in (COMMIT, PUNCTUATORS):
        for _ in range(6):
            task.run(kind)
    assert task.runs.asked[7:] == [True] * 12
    task.runs.asked = []
    task.idle_until(6.0)
    task.measured()
    task.idle_until(29.0)
    task.measured()
    task.run(records=1)
    assert task.runs.asked == [False]
    task.idle_until(36.0)
    task.measured()
    for _ in range(6):
        task.run(records=1)
    assert task.runs.asked[1:] == [True] * 4 + [False] * 2, "the one at 29 s is of this half minute"


@pytest.mark.parametrize(
    ("seconds", "records", "anyway"),
    [(0.02, 1, True), (0.019, 1, False), (0.02, 20, True), (0.02, 21, False), (0.5, 500, True), (0.5, 501, False)],
)
def test_the_run_after_a_long_one_with_slow_records_is_measured_anyway(
    seconds: float, records: int, anyway: bool
) -> None:
    task = scripted()
    for _ in range(5):
        task.run(records=1)
    task.figures.end(RECORDS, seconds, records)
    task.figures.end(COMMIT, 5.0)
    task.figures.end(RECORDS, 0.0, idle=True)
    task.run(records=1)
    task.run(records=1)
    assert task.runs.asked[5:] == [anyway, False]


# ---- the end of a run ----


def test_the_time_of_measuring_is_taken_off_the_run_and_its_cost_is_noted() -> None:
    task = scripted(overhead=Overhead(1 / 16, 1 / 8))
    assert task.run(records=2, rest_s=1.0, weight=3.0, source=(2, 0.5)) == 2.0 - 2 * 3 / 16
    assert task.runs.noted == [(3.0, 2 * 3 / 16)]
    assert task.run(records=1, weight=3.0, source=(1, 1 / 16)) == 0.0, "never less than nothing"
    assert task.run(records=2, weight=0.0, source=(2, 0.5)) == 1.0
    assert len(task.runs.noted) == 2


def test_the_cost_of_a_run_has_the_time_for_putting_plain_edges_back() -> None:
    task = scripted()
    task.meter.swap(lambda edge: task.spend(2.0 if edge is min else 4.0), min, max)
    task.figures.begin()
    assert task.figures.end(RECORDS, 3.0, 1) == 1.0
    assert task.runs.noted == [(1.0, 6.0)]


def test_a_run_is_long_by_its_time_without_that_of_measuring() -> None:
    task = scripted(overhead=Overhead(1 / 16, 1 / 8))
    task.run(records=1, source=(1, 3 / 16 + 0.015))
    assert (task.figures._kinds[RECORDS].runs, task.figures._kinds[LONG].runs) == (1, 0)
    task.run(records=1, source=(1, 3 / 16 + 0.025))
    assert (task.figures._kinds[RECORDS].runs, task.figures._kinds[LONG].runs) == (1, 1)


def test_a_run_that_finds_nothing_to_do_costs_and_does_not_count() -> None:
    task = scripted()
    task.figures.begin()
    assert task.figures.end(RECORDS, 0.5, idle=True) == 0.5
    assert len(task.runs.noted) == 1
    assert all(kind.runs == kind.measured_runs == 0 for kind in task.figures._kinds)


def test_a_run_after_one_that_failed_counts_by_itself() -> None:
    task = scripted()
    task.figures.fail()
    task.runs.weight = 4.0
    task.figures.begin()
    task.figures.fail()
    task.figures.end(RECORDS, SHORT_S, 1)
    assert task.runs.noted == []
    kind = task.figures._kinds[RECORDS]
    assert (kind.runs, kind.measured_runs, kind.seconds) == (1, 0, SHORT_S)


def test_the_failure_of_a_run_that_is_not_measured_touches_no_edge() -> None:
    put: list[Any] = []
    task = scripted()
    task.meter.swap(put.append, min, max)
    task.runs.weight = 0.0
    task.figures.begin()
    task.figures.fail()
    assert put == []
    OperatorFigures(task.runs, {}).fail()  # there may be no task yet


def test_each_step_of_a_commit_is_a_run_and_its_time_ends_before_the_next_step_is_asked_for() -> None:
    task = scripted()

    def steps() -> Iterator[None]:
        task._timed["b"](1.0)
        yield
        task._timed["b"](2.0)
        yield
        task.spend(4.0)

    for _ in task.figures.steps(steps()):
        assert not task.meter.running
        task.spend(8.0)
    kind = task.figures._kinds[COMMIT]
    assert (kind.runs, kind.measured_runs, kind.seconds, kind.records) == (3, 3, 7.0, 0)
    assert (task.busy_s("b"), task.records("b")) == (3.0, 2.0)


def test_a_commit_that_the_process_gives_up_leaves_plain_edges() -> None:
    task = scripted()

    def steps() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(task.figures.steps(steps()))
    assert not task.meter.running
    assert task.figures._kinds[COMMIT].runs == 1


# ---- estimates ----


def test_a_measured_run_stands_for_others_by_their_time_and_their_records() -> None:
    task = scripted()
    for _ in range(5):
        task.run(records=8, weight=3.0, source=(8, SHORT_S / 16), b=(2, SHORT_S / 4))
    for _ in range(10):
        task.run(records=20, weight=0.0, rest_s=SHORT_S / 2)
    # 10 runs' worth of time, of which each operator has a half; 240 records, of which a quarter passes the filter
    assert task.busy_s("source") == pytest.approx(5 * SHORT_S)
    assert task.busy_s("b") == pytest.approx(5 * SHORT_S)
    assert task.records("source") == pytest.approx(240.0)
    assert task.records("b") == pytest.approx(60.0)


def test_runs_of_more_weight_stand_for_more() -> None:
    task = scripted()
    for _ in range(4):
        task.run(records=1, weight=1.0, source=(1, SHORT_S))
    task.run(records=1, weight=12.0, source=(1, SHORT_S / 2), b=(1, SHORT_S / 2))
    task.run(records=11, weight=0.0, rest_s=11 / 1024)
    whole_s = 5 * SHORT_S + 11 / 1024
    assert task.busy_s("b") == pytest.approx(whole_s * 6 / 16)
    assert task.busy_s("source") == pytest.approx(whole_s * 10 / 16)
    assert task.records("b") == pytest.approx(16 * 12 / 16)


def test_commits_have_no_records_and_are_estimated_by_their_time() -> None:
    task = scripted()
    for _ in range(5):
        task.run(COMMIT, weight=2.0, rest_s=0.5, b=(4, 0.125))
    task.run(COMMIT, weight=0.0, rest_s=5.0)
    assert task.busy_s("b") == 2.5 * 2
    assert task.records("b") == 20 * 2


def test_runs_that_take_no_time_by_the_clock_count_their_records() -> None:
    task = scripted()
    for _ in range(5):
        task.run(COMMIT, b=(2, 0.0))
    assert (task.busy_s("b"), task.records("b")) == (0.0, 10.0)


def test_records_of_a_commit_count_even_if_measuring_seems_to_have_taken_all_its_time() -> None:
    task = scripted(overhead=Overhead(0.0, 1.0))
    task.run(COMMIT, b=(3, 0.5))
    assert (task.busy_s("b"), task.records("b")) == (0.0, 3.0)


def test_operators_never_have_more_than_the_time_of_their_runs() -> None:
    task = scripted(overhead=Overhead(0.0, 1 / 16))
    for _ in range(5):
        task.run(COMMIT, weight=2.0, source=(1, 0.25), b=(1, 0.5))
    assert (task.records("source"), task.records("b")) == (5.0, 5.0), "which changes no count"
    spent_s = 5 * (0.75 - 2 / 16)
    assert task.busy_s("source") == pytest.approx(spent_s / 3)
    assert task.busy_s("b") == pytest.approx(spent_s * 2 / 3)


def test_a_call_that_is_shorter_than_its_overhead_takes_nothing() -> None:
    task = scripted(overhead=Overhead(0.25, 0.0))
    task.run(records=1, source=(1, 1.25), b=(1, 0.125))
    assert (task.busy_s("b"), task.records("b")) == (0.0, 1.0)
    assert task.busy_s("source") == 1.375 - 0.5


def test_an_operator_takes_no_more_than_all_the_time() -> None:
    task = scripted()
    task.figures.decoded("in", 40.0)
    task.idle_until(32.0)
    assert task.measured()["busy-ratio", "source"] == 1.0


# ---- time in no operator ----


def test_the_queues_time_is_that_of_the_sources_equally_per_record() -> None:
    task = scripted(sources={"in": "source", "in-2": "source", "more": "other", "rare": "absent"})
    task.run(records=4, rest_s=1.0, source=(3, 0.25), other=(1, 0.5), b=(4, 0.125))
    task.run(records=1, rest_s=SHORT_S, other=(1, 0.0))
    assert task.busy_s("source") == 0.75 + 0.75
    assert task.busy_s("other") == 0.5 + 0.25 + SHORT_S
    assert task.busy_s("b") == 0.5


def test_the_queues_time_counts_as_often_as_its_run() -> None:
    task = scripted()
    for _ in range(5):
        task.run(records=1, weight=2.0, rest_s=SHORT_S / 2, b=(1, SHORT_S / 4), source=(1, SHORT_S / 4))
    task.run(records=5, weight=0.0, rest_s=SHORT_S)
    assert task.busy_s("source") == pytest.approx(6 * SHORT_S * 3 / 4)


def test_a_punctuator_counts_as_time_of_its_operator_and_as_no_record() -> None:
    task = scripted()
    task.figures.begin(PUNCTUATORS)
    task.meter.within("b", task.spend)(1.0)
    task.figures.end(PUNCTUATORS, 1.0)
    assert (task.busy_s("b"), task.records("b")) == (1.0, 0.0)


@pytest.mark.parametrize("kind", [PUNCTUATORS, COMMIT])
def test_the_time_of_a_commit_or_punctuator_outside_operators_belongs_to_no_operator(kind: int) -> None:
    task = scripted()
    task.run(kind, rest_s=1.0, source=(1, 0.25))
    assert task.busy_s("source") == 0.25


def test_the_time_of_a_run_without_records_of_a_source_belongs_to_no_operator() -> None:
    task = scripted()
    task.run(records=1, rest_s=1.0, b=(1, 0.25))
    assert (task.busy_s("source"), task.busy_s("b")) == (0.0, 0.25)


def test_the_decoding_of_a_topic_is_added_to_its_source_or_is_reported_under_the_topics_name() -> None:
    task = scripted(sources={"in": "source", "in-2": "source"})
    task.run(records=1, source=(1, 0.5))
    for topic in ("in", "in", "in-2", "unknown"):
        task.figures.decoded(topic, 1.0)
    assert task.busy_s("source") == 3.5
    assert task.busy_s("unknown") == 1.0
    assert ("records-rate", "unknown") not in task.measured()
