"""The share of time and the records per second of operators, from runs that were measured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import COMMIT, LONG, PUNCTUATORS, RECORDS, OperatorFigures
from penstock.common.metric_names import NODE, Measured
from penstock.tasks.measuring.operator_meter import OperatorMeter, Overhead
from tests.actors.rig import STRING, Rig, settle
from tests.actors.test_metrics import status_of, task_of

FREE = Overhead(0.0, 0.0)


class Play:
    """A task whose operators are functions that take some time, and pass some records on: ``a`` calls ``b``."""

    def __init__(self, runs: MeasuredRuns | None = None, seed: int = 7, share: float | None = None) -> None:
        self.now_s, self.seed = 1000.0, seed
        self.random = Random(seed)
        self.runs = runs or MeasuredRuns(self.clock, self.clock, FREE, self.random.random)
        if share is not None:
            self.runs.share = share
        self.figures = OperatorFigures(self.runs, {"in": "source"})
        self.plain: dict[str, Callable[..., None]] = {}
        self.meter = self.figures.new_meter()
        self.a_s, self.b_s, self.passed_of_10 = 0.0001, 0.0001, 10
        self._number = 0
        self._b: Callable[..., None] = self._spend_b
        plain_b, b = self._b, self.meter._timed("b", self._b)
        self.meter.swap(lambda edge: setattr(self, "_b", edge), b, plain_b)
        self.head: Callable[..., None] = self._spend_a
        self.meter.connect_source("source", self.head, lambda edge: setattr(self, "head", edge))

    def clock(self) -> float:
        return self.now_s

    def _spend_a(self, *record: Any) -> None:
        self.now_s += self.a_s
        self._number += 1
        if self._number % 10 < self.passed_of_10:
            self._b(*record)

    def _spend_b(self, *record: Any) -> None:
        self.now_s += self.b_s

    def process(self, records: int, kind: int = RECORDS, rest_s: float = 0.0) -> None:
        begun_s = self.now_s
        self.figures.begin(kind)
        self.now_s += rest_s
        for _ in range(records):
            self.head("k", "v", 1)
        self.figures.end(kind, self.now_s - begun_s, records)

    def measured(self) -> dict[tuple[str, str], Any]:
        """Returns the figures by name and node."""
        measured: Measured = self.figures.measured(self.now_s)
        assert all(group == NODE for group, *_ in measured)
        return {(name, node): value for (_, name, node), value in measured.items()}

    def idle_until(self, now_s: float) -> None:
        self.now_s = max(self.now_s, now_s)


def test_a_slow_operator_has_nearly_all_of_the_share_and_a_filter_passes_one_of_ten() -> None:
    play = Play(share=1 / 20)
    play.b_s, play.passed_of_10 = 0.01, 1
    play.runs.measured = lambda weight, cost_s: None  # type: ignore[method-assign]  # keeps the share
    play.measured()
    for _ in range(4000):
        play.process(10)
    elapsed_s = play.now_s - 1000.0
    measured = play.measured()
    assert measured["busy-ratio", "b"] == pytest.approx(4000 * 0.01 / elapsed_s, rel=0.05), play.seed
    assert measured["busy-ratio", "source"] == pytest.approx(40_000 * 0.0001 / elapsed_s, rel=0.05), play.seed
    assert measured["records-rate", "source"] == pytest.approx(40_000 / elapsed_s, rel=0.01)
    assert measured["records-rate", "b"] == pytest.approx(4000 / elapsed_s, rel=0.2)


def test_all_is_exact_while_all_runs_are_measured_and_what_is_idle_counts() -> None:
    play = Play(share=1.0)
    play.measured()
    play.process(100, rest_s=0.01)
    play.idle_until(1010.0)
    measured = play.measured()
    assert measured["busy-ratio", "b"] == pytest.approx(0.01 / 10)
    assert measured["busy-ratio", "source"] == pytest.approx((0.01 + 0.01) / 10)
    assert measured["records-rate", "b"] == pytest.approx(100 / 10)


def test_the_decoding_of_records_is_time_of_their_source() -> None:
    play = Play(share=1.0)
    play.measured()
    play.figures.decoded("in", 3.0)
    play.idle_until(1010.0)
    assert play.measured()["busy-ratio", "source"] == pytest.approx(0.3)


def test_figures_are_absent_until_enough_runs_were_measured_and_again_when_none_are() -> None:
    play = Play(share=0.0001)
    assert play.measured() == {}, "nothing has happened yet"
    play.runs.pick = lambda anyway=False: 0.0  # type: ignore[method-assign]
    for _ in range(50):
        play.process(10)
    play.idle_until(1002.0)
    assert play.measured() == {}
    play.runs.pick = lambda anyway=False: 10.0  # type: ignore[method-assign]
    for _ in range(5):
        play.process(10)
    play.idle_until(1004.0)
    assert play.measured()["records-rate", "b"] == pytest.approx(550 / 4)


def test_what_was_seen_in_usual_runs_is_not_said_of_long_ones() -> None:
    play = Play(share=1.0)
    play.measured()
    for _ in range(100):
        play.process(10)  # 2 ms each
    play.runs.pick = lambda anyway=False: 0.0  # type: ignore[method-assign]
    play.b_s = 0.5
    play.process(1)
    play.idle_until(1005.0)
    assert play.measured() == {}, "most of the time was a long run that was not measured"
    play.idle_until(1040.0)
    play.runs.pick = lambda anyway=False: 1.0  # type: ignore[method-assign]
    play.measured()
    play.process(1)
    play.idle_until(1050.0)
    assert play.figures._kinds[LONG].measured_runs == 1
    assert play.measured()["busy-ratio", "b"] > 0


def test_punctuators_and_commits_count_by_their_own_runs() -> None:
    play = Play(share=1.0)
    play.measured()
    play.process(1, PUNCTUATORS)
    steps = play.figures.steps(_flushing(play))
    assert len(list(steps)) == 3
    assert play.figures._kinds[COMMIT].runs == 4
    play.idle_until(1010.0)
    assert play.measured()["records-rate", "b"] == pytest.approx((1 + 3) / 10)


def test_an_operator_that_only_an_unmeasured_commit_reaches_has_no_figures_instead_of_nothing() -> None:
    play = Play(share=1.0)
    play.measured()
    play.passed_of_10 = 0
    for _ in range(1000):
        play.process(10)
    play.runs.pick = lambda anyway=False: 0.0  # type: ignore[method-assign]
    list(play.figures.steps(_flushing(play)))
    play.idle_until(1010.0)
    measured = play.measured()
    assert measured["records-rate", "source"] == pytest.approx(1000.0)
    assert ("records-rate", "b") not in measured
    assert ("busy-ratio", "b") not in measured


def test_a_long_commit_that_was_not_measured_takes_figures_from_the_operators_that_commits_reach_alone() -> None:
    play = Play(share=1.0)
    for _ in range(2):
        list(play.figures.steps(_flushing(play)))
    play.measured()
    play.passed_of_10 = 0
    play.idle_until(1050.0)
    play.measured()
    for _ in range(100):
        play.process(10)
    play.runs.pick = lambda anyway=False: 0.0  # type: ignore[method-assign]
    play.b_s = 0.5
    list(play.figures.steps(_flushing(play)))
    play.idle_until(1085.0)
    measured = play.measured()  # of the time since 1050
    assert measured["records-rate", "source"] == pytest.approx(1000 / 35)
    assert ("records-rate", "b") not in measured


def _flushing(play: Play) -> Iterator[None]:
    for _ in range(3):
        play._b("k", "v", 1)
        yield


def test_a_run_that_fails_does_not_count_and_leaves_plain_edges() -> None:
    play = Play(share=1.0)
    plain = play.head
    play.figures.begin()
    assert play.head != plain
    play.figures.fail()
    assert play.head == plain
    assert all(kind.runs == 0 for kind in play.figures._kinds)
    with pytest.raises(KeyError):
        list(play.figures.steps(_failing()))
    assert play.head == plain


def _failing() -> Iterator[None]:
    yield
    raise KeyError


@pytest.mark.parametrize(
    ("cost_s", "cpu_share", "share"),
    [
        (0.001, 1.0, 0.0015 / 0.5),
        (0.001, 0.25, 0.25 * 0.0015 / 0.5),
        (0.000001, 1.0, 1.0),
        (0.0005, 0.0, 0.00015 / 0.25),
    ],
)
def test_measuring_takes_its_share_of_cpu_time_or_little_of_an_idle_one(
    cost_s: float, cpu_share: float, share: float
) -> None:
    now = [0.0]
    random = Random(3).random
    runs = MeasuredRuns(lambda: now[0], lambda: cpu_share * now[0], FREE, random)
    taken_s, shares = 0.0, []
    for number in range(50_000):  # 2 ms each
        now[0] += 0.002
        if weight := runs.pick():
            now[0] += cost_s
            taken_s += cost_s if number > 500 else 0.0  # in the first second it learns what measuring costs
            runs.measured(weight, cost_s)
        shares.append(runs.share)
    assert taken_s <= 0.0025 * max(0.1, cpu_share) * now[0]
    assert 0.4 * share <= sum(shares[1000:]) / len(shares[1000:]) <= 1.6 * share


def test_an_actor_reports_its_operators_also_after_an_aborted_transaction(tmp_path: Path) -> None:
    rig = Rig(tmp_path, filtering(), processing_guarantee="exactly_once_v2", commit_interval_ms=1000)
    loop = rig.running()
    _measure_all(loop)
    task_of(loop)
    rig.write("in", *(("a", str(number % 10), number + 1) for number in range(100)))
    settle(loop)
    rig.clock.now_ms += 10_000
    first = task_of(loop).measured
    assert first[NODE, "records-rate", "tens"] == pytest.approx(10.0)
    assert first[NODE, "records-rate", "below"] == pytest.approx(1.0)
    assert first[NODE, "busy-ratio", "below"] == 0.0, "this clock stands still"
    rig.coordinator.join()  # restarted: its earlier answers to the actor no longer hold
    rig.commit(loop)
    settle(loop)
    assert status_of(loop).aborted_transactions == 1
    rig.clock.now_ms += 10_000
    again = task_of(loop).measured
    assert again[NODE, "records-rate", "tens"] == pytest.approx(200 / 21, rel=0.01), "the records came again"


def test_tasks_of_one_sub_topology_have_figures_of_their_own_and_leave_nothing_when_they_close(tmp_path: Path) -> None:
    rig = Rig(tmp_path, filtering(), partitions=2)
    loop = rig.running()
    _measure_all(loop)
    status_of(loop)
    rig.write("in", *(("a", "0", number + 1) for number in range(20)), partition=0)
    rig.write("in", *(("a", "1", number + 1) for number in range(40)), partition=1)
    settle(loop)
    rig.clock.now_ms += 10_000
    one, other = status_of(loop).tasks
    assert one.measured[NODE, "records-rate", "below"] == pytest.approx(2.0)
    assert other.measured[NODE, "records-rate", "tens"] == pytest.approx(4.0)
    assert other.measured[NODE, "records-rate", "below"] == 0.0
    runs = loop._hosted._opening._runs
    loop.assign(99, {}, {})
    settle(loop)
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is OperatorMeter and each._now_s is runs.now_s]


def filtering() -> ps.Topology:
    builder = ps.StreamsBuilder()
    kept = builder.stream("in", ps.Consumed.with_(STRING, STRING)).filter(
        lambda value: value == "0", named=ps.Named.as_("tens")
    )
    kept.map_values(str.upper, named=ps.Named.as_("below")).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def _measure_all(loop: Any) -> None:
    loop._hosted._opening._runs.share = 1.0
