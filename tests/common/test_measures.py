"""Rates, averages and extremes of late, and latencies in buckets."""

from __future__ import annotations

import pytest

from penstock.common.measures import LATENCY_BOUNDS_MS, LatencyCounts, Look, Meter, Sent, Window


def test_a_meter_counts_sums_and_keeps_the_highest() -> None:
    meter = Meter()
    meter.add(0.5)
    meter.add(0.75)
    meter.add(0.25)
    assert (meter.count, meter.total, meter.highest) == (3, 1.5, 0.75)


def test_the_first_look_sees_nothing_for_nobody_knows_since_when() -> None:
    assert Window().look(100.0, 5000, 12.0, 3.0) == Look()


def test_a_check_reports_what_has_happened_since_the_last_one() -> None:
    window = Window()
    window.look(100.0, 1000, 10.0)
    seen = window.look(110.0, 1200, 15.0, 0.25, 0.125)
    assert (seen.rate, seen.per_second, seen.average) == (20.0, 0.5, 0.025)
    assert (seen.highest, seen.lowest) == (0.25, 0.125)


def test_after_half_a_minute_what_was_before_is_forgotten() -> None:
    window, meter = Window(), Meter()
    window.look_at(meter, 0.0)
    meter.add(9.0)
    assert window.look_at(meter, 3.0).highest == 9.0
    for second in range(6, 49, 3):
        meter.add(0.5)
        seen = window.look_at(meter, float(second))
    assert seen.highest == 0.5
    assert seen.average == 0.5
    assert seen.rate == pytest.approx(1 / 3)


def test_a_meter_without_events_has_rate_zero_and_no_average() -> None:
    window = Window()
    for second in range(0, 60, 3):
        seen = window.look(float(second), 7, 7.0)
    assert seen == Look()


def test_many_askers_do_not_take_the_highest_from_each_other() -> None:
    window, meter = Window(), Meter()
    window.look_at(meter, 0.0)
    meter.add(2.0)
    assert window.look_at(meter, 0.5).highest == 2.0
    assert window.look_at(meter, 0.6).highest == 2.0
    assert window.look_at(meter, 5.0).highest == 2.0


@pytest.mark.parametrize(
    ("latency_ms", "bucket"), [(-3, 0), (0, 0), (5, 0), (6, 1), (1_800_000, len(LATENCY_BOUNDS_MS) - 1)]
)
def test_a_latency_is_in_the_bucket_whose_end_it_is_not_above(latency_ms: int, bucket: int) -> None:
    counts = LatencyCounts()
    counts.add(latency_ms)
    sent = counts.take(1, 0)
    assert [index for index, count in enumerate(sent.latency.counts) if count] == [bucket]
    assert sent.latency.total_ms == max(0, latency_ms)


def test_a_latency_above_all_bounds_has_a_bucket_of_its_own() -> None:
    counts = LatencyCounts()
    counts.add(10**12)
    assert counts.take(1, 0).latency.counts == (0,) * len(LATENCY_BOUNDS_MS) + (1,)


def test_extremes_are_those_since_the_last_call_and_counts_continue() -> None:
    counts = LatencyCounts()
    counts.add(7)
    counts.add(900)
    assert (counts.take(2, 20).latency_min_ms, sum(counts.take(2, 20).latency.counts)) == (7, 2)
    sent = counts.take(2, 20)
    assert (sent.latency_min_ms, sent.latency_max_ms) == (None, None)


def test_records_sent_before_a_sink_was_renewed_are_added_to_those_sent_since() -> None:
    one, other = LatencyCounts(), LatencyCounts()
    one.add(7)
    other.add(3)
    both = Sent() + one.take(1, 10) + other.take(1, 12)
    assert (both.records, both.bytes, both.latency.total_ms, sum(both.latency.counts)) == (2, 22, 10, 2)
