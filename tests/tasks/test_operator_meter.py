"""The clock readings of a measured run, and the overhead that they are corrected by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.tasks.measuring.operator_meter import OperatorMeter, Overhead, RunEnd, calibrated


class Clock:
    """A clock that only :meth:`spend` moves."""

    def __init__(self) -> None:
        self.now = 64.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


class Metered:
    """A meter, and edges that spend some seconds before they call those below them."""

    def __init__(self, overhead: Overhead | None = None) -> None:
        self.clock = Clock()
        self.meter = OperatorMeter(self.clock, overhead or Overhead())

    def edge(self, node: str, seconds: float, *below: Callable[..., None]) -> Callable[..., None]:
        """Returns the timed edge into ``node``."""

        def run(*record: object) -> None:
            self.clock.spend(seconds)
            for each in below:
                each(*record)

        return self.meter._timed(node, run)

    def of(self, node: str) -> tuple[int, float]:
        seen = self.meter.nodes[node]
        return seen.calls, seen.self_s


def test_a_run_is_longer_by_the_time_for_putting_timed_edges_and_costs_also_that_for_plain_ones() -> None:
    metered = Metered()
    metered.meter.swap(lambda edge: metered.clock.spend(4.0 if edge is min else 8.0), min, max)
    metered.meter.begin()
    metered.clock.spend(1.0)
    assert metered.meter.end() == RunEnd(in_no_node_s=1.0, longer_s=4.0, cost_s=12.0)


def test_time_in_no_node_is_that_between_calls_of_edges_without_what_measuring_them_takes() -> None:
    metered = Metered(Overhead(inside_s=0.25, around_s=0.5))
    one = metered.edge("one", 1.0, metered.edge("two", 2.0))
    metered.meter.begin()
    metered.clock.spend(4.0)
    one()
    metered.clock.spend(8.0)
    one()
    assert metered.meter.end() == RunEnd(in_no_node_s=12.0 - 2 * 0.5, longer_s=4 * 0.75, cost_s=4 * 0.75)
    assert (metered.of("one"), metered.of("two")) == ((2, 2 * (1.0 - 0.75)), (2, 2 * (2.0 - 0.25)))


def test_time_in_no_node_is_never_negative() -> None:
    metered = Metered(Overhead(around_s=0.5))
    one = metered.edge("one", 1.0)
    metered.meter.begin()
    one()
    assert metered.meter.end().in_no_node_s == 0.0


def test_each_run_has_its_own_figures() -> None:
    metered = Metered(Overhead(around_s=0.5))
    one, two = metered.edge("one", 1.0), metered.edge("two", 2.0)
    metered.meter.begin()
    one()
    metered.meter.within("two", two)()
    metered.meter.end()
    metered.meter.begin()
    metered.clock.spend(4.0)
    two()
    assert metered.meter.end() == RunEnd(in_no_node_s=3.5, longer_s=0.5, cost_s=0.5)
    assert (metered.of("one"), metered.of("two")) == ((0, 0.0), (1, 2.0))


def test_an_edge_that_is_made_during_a_run_is_measured_from_then_on() -> None:
    metered = Metered()
    metered.meter.begin()
    metered.edge("late", 1.0)()
    metered.meter.end()
    assert metered.of("late") == (1, 1.0)


def test_the_seconds_of_two_children_are_taken_off_their_parent() -> None:
    metered = Metered()
    parent = metered.edge("parent", 1.0, metered.edge("one", 2.0, metered.edge("three", 8.0)), metered.edge("two", 4.0))
    metered.meter.begin()
    parent()
    metered.meter.end()
    assert [metered.of(node)[1] for node in ("parent", "one", "two", "three")] == [1.0, 2.0, 4.0, 8.0]


def test_a_function_within_a_node_counts_as_its_time_and_as_no_record_with_the_same_overhead() -> None:
    metered = Metered(Overhead(inside_s=0.25, around_s=0.5))
    metered.edge("node", 1.0)
    got: list[Any] = []

    def late(*arguments: object) -> None:
        metered.clock.spend(3.0)
        got.append(arguments)

    metered.meter.begin()
    run = metered.meter.within("node", late)
    run("now", 1)
    run("now", 2)
    assert metered.meter.end().longer_s == 2 * 0.75
    assert metered.of("node") == (0, 2 * (3.0 - 0.25))
    assert got == [("now", 1), ("now", 2)]


def test_calls_that_are_shorter_than_the_overhead_are_made_good_by_longer_ones() -> None:
    metered = Metered(Overhead(inside_s=0.25))
    short, long = metered.edge("node", 0.125), metered.edge("node", 1.0)
    metered.meter.begin()
    short()
    long()
    metered.meter.end()
    assert metered.of("node") == (2, 1.125 - 2 * 0.25)


def test_a_call_that_fails_has_its_time_and_that_above_it_continues() -> None:
    metered = Metered()

    def fails() -> None:
        metered.clock.spend(2.0)
        raise KeyError

    below = metered.meter._timed("below", fails)

    def catches() -> None:
        metered.clock.spend(1.0)
        with pytest.raises(KeyError):
            below()

    above = metered.meter._timed("above", catches)
    metered.meter.begin()
    above()
    assert metered.meter.end().in_no_node_s == 0.0
    assert (metered.of("above"), metered.of("below")) == ((1, 1.0), (1, 2.0))


def test_a_meter_runs_from_the_beginning_of_a_measured_run_to_its_end() -> None:
    meter = Metered().meter
    assert not meter.running
    meter.begin()
    assert meter.running
    meter.end()
    assert not meter.running


def test_a_meter_is_connected_as_soon_as_it_has_a_place_for_a_timed_edge() -> None:
    meter = Metered().meter
    assert not meter.connected
    assert not meter.knows_edges
    meter.connect({"one": print}, {}, ())
    assert meter.knows_edges
    assert not meter.connected
    meter.connect_source("source", print, lambda edge: None)
    assert meter.connected


def test_a_source_whose_head_is_the_edge_into_its_only_child_counts_records_of_both() -> None:
    metered, heads = Metered(), list[Any]()

    def child(*record: object) -> None:
        metered.clock.spend(1.0)

    metered.meter.connect({"sibling": print, "child": child}, {}, ())
    metered.meter.connect_source("source", child, heads.append)
    metered.meter.begin()
    heads[-1]("k", "v", 1)
    metered.meter.end()
    assert (metered.of("source"), metered.of("child")) == ((1, 0.0), (1, 1.0))
    assert metered.of("sibling") == (0, 0.0)
    assert heads[-1] is child


def test_a_source_of_two_topics_counts_the_records_of_both_and_leaves_both_heads_plain() -> None:
    metered, one, other = Metered(), list[Any](), list[Any]()
    metered.meter.connect({"child": print}, {}, ())
    for heads, topic in ((one, abs), (other, len)):
        metered.meter.connect_source("source", topic, heads.append)
    metered.meter.begin()
    one[-1](-1)
    other[-1]("ab")
    metered.meter.end()
    assert metered.of("source") == (2, 0.0)
    assert (one[-1], other[-1]) == (abs, len)


def test_a_node_that_only_passes_on_calls_the_timed_edge_of_its_child() -> None:
    metered, heads = Metered(), list[Any]()

    def child(*record: object) -> None:
        metered.clock.spend(1.0)

    def passes(*record: object) -> None:
        child(*record)

    metered.meter.connect({"child": child, "passes": passes}, {"passes": "child"}, ())
    metered.meter.connect_source("source", passes, heads.append)
    metered.meter.begin()
    heads[-1]("k", "v", 1)
    metered.meter.end()
    assert [metered.of(node) for node in ("source", "passes", "child")] == [(1, 0.0), (1, 0.0), (1, 1.0)]


# ---- calibration ----

CALLS, EDGES = 50, 5
READINGS = 2 + 2 + 2 + (2 + CALLS * 2 * (EDGES - 1)) + 2
"""Readings of the clock in one try: two times plain, at the beginning of the run, timed, at its end. The first edge of
the chain is not timed."""
FIRST_PLAIN, SECOND_PLAIN, FIRST_TIMED = 1, 3, 7
INNERMOST, OUTERMOST = 4, 7
"""Of the readings of one call, those at the end of the last edge of the chain and of the first timed one."""


def ticking(seconds: Callable[[int, int], float]) -> Callable[[], float]:
    """Returns a clock that moves when it is read: by ``seconds`` of the try and the number of the reading in it."""
    read, now_s = 0, 0.0

    def clock() -> float:
        nonlocal read, now_s
        now_s += seconds(*divmod(read, READINGS))
        read += 1
        return now_s

    return clock


def of_call(reading: int) -> int | None:
    """Returns the index of a reading within its call of the timed chain; None if it belongs to no call."""
    return (reading - FIRST_TIMED) % 8 if FIRST_TIMED <= reading < FIRST_TIMED + 8 * CALLS else None


def test_the_calibration_finds_what_reading_the_clock_takes_inside_and_around() -> None:
    found = calibrated(ticking(lambda number, reading: 1.0))
    plain_s = 1 / (CALLS * EDGES)  # the clock moves once for all plain calls
    assert found.inside_s == pytest.approx(1 - plain_s)
    assert found.around_s == pytest.approx(1 + plain_s)


def test_the_calibration_takes_the_median_of_seven_tries() -> None:
    ticks = (5.0, 1.0, 100.0, 3.0, 2.0, 6.0, 4.0)
    found = calibrated(ticking(lambda number, reading: ticks[number]))
    assert found.inside_s == pytest.approx(4 * (1 - 1 / 250))
    assert found.around_s == pytest.approx(4 * (1 + 1 / 250))


@pytest.mark.parametrize("disturbed", [FIRST_PLAIN, SECOND_PLAIN])
def test_a_disturbed_run_of_plain_edges_is_made_good_by_the_other(disturbed: int) -> None:
    found = calibrated(ticking(lambda number, reading: 1000.0 if reading == disturbed else 1.0))
    assert found.inside_s == pytest.approx(1 - 1 / 250)
    assert found.around_s == pytest.approx(1 + 1 / 250)


def test_what_is_inside_is_never_more_than_the_whole() -> None:
    found = calibrated(ticking(lambda number, reading: 3.0 if of_call(reading) == INNERMOST else 0.0))
    assert found == Overhead(inside_s=3.0 / 4, around_s=0.0)


def test_what_is_inside_is_never_negative() -> None:
    def seconds(number: int, reading: int) -> float:
        if reading in (FIRST_PLAIN, SECOND_PLAIN):
            return 25.0
        return 4.0 if of_call(reading) == OUTERMOST else 0.0

    found = calibrated(ticking(seconds))
    assert found.inside_s == 0.0
    assert found.around_s == pytest.approx((4.0 * CALLS - 25.0) / (4 * CALLS))


def test_timed_edges_that_seem_to_be_faster_than_plain_ones_cost_nothing() -> None:
    plain = (FIRST_PLAIN, SECOND_PLAIN)
    assert calibrated(ticking(lambda number, reading: 1000.0 if reading in plain else 1.0)) == Overhead(0.0, 0.0)
