"""The windows that take each record, against plain counting: windows of every kind and joins, over random times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from tests.tiers import examples

STRING, LONG, JSON = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.json()
FOR_EVER = 1 << 45
BASES = (0, 1_795_348_800_000, 1 << 44)
"""The times (ms) at which records begin: the epoch, now, and far ahead."""
some_times = st.tuples(st.sampled_from(BASES), st.lists(st.integers(0, 60), min_size=1, max_size=14)).map(
    lambda drawn: [drawn[0] + each for each in drawn[1]]
)
few = settings(max_examples=examples(40))
Windowed = ps.Windowed[str]
Results = dict[tuple[int, int], Any]


def windowed(
    times: Iterable[int], aggregated: Callable[[ps.KGroupedStream[str, int]], ps.KTable[Windowed, Any]], **config: Any
) -> tuple[Results, int]:
    """Returns the content of each window in the end, by its start and end, for numbered records at ``times``; and the
    number of records dropped."""
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(STRING, LONG)).group_by_key()
    stream = aggregated(grouped).to_stream(lambda key, value: f"{key.window.start} {key.window.end}")
    stream.to("out", ps.Produced.with_(STRING, JSON))
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", STRING, LONG)
        for number, time in enumerate(times):
            if time < 0:  # only a topic has such records: no program may write one
                driver.pipe("in", STRING.serialize("k"), LONG.serialize(number), time)
            else:
                source.pipe_input("k", number, time)
        dropped = driver.metrics().dropped_records_total
        found = driver.create_output_topic("out", STRING, JSON).read_key_values_to_map()
    results: Results = {}
    for key, value in found.items():
        assert key is not None
        if value is not None:
            start, end = map(int, key.split())
            results[start, end] = sorted(value)
    return results, dropped


def adding(key: str, number: int, numbers: list[int]) -> list[int]:
    return [*numbers, number]


def kept(retention: int | None = FOR_EVER) -> ps.Materialized[str, Any]:
    kept: ps.Materialized[str, Any] = ps.Materialized.as_("windows").with_value_serde(JSON)
    return kept if retention is None else kept.with_retention(retention)


class TestTimeWindows:
    @few
    @given(some_times, st.integers(1, 25), st.data(), st.integers(0, 20))
    def test_a_record_is_in_every_window_around_it_that_is_not_closed(
        self, times: list[int], size: int, data: st.DataObject, grace: int
    ) -> None:
        advance = data.draw(st.integers(1, size), "advance")
        windows = ps.TimeWindows.of_size_and_grace(size, grace).advance_by(advance)
        results, dropped = windowed(times, lambda it: it.windowed_by(windows).aggregate(list, adding, kept()))
        expected: Results = {}
        late, stream_time = 0, 0
        for number, time in enumerate(times):
            stream_time = max(stream_time, time)
            for start in range(max(0, time - size + 1), time + 1):
                if start % advance == 0:
                    if start + size > stream_time - grace:
                        expected.setdefault((start, start + size), []).append(number)
                    else:
                        late += 1
        assert (results, dropped) == (expected, late)

    def test_windows_at_the_end_of_all_time_end_there(self) -> None:
        last = (1 << 63) - 1
        windows = ps.TimeWindows.of_size_with_no_grace(10)
        results, _ = windowed([last - 2], lambda it: it.windowed_by(windows).aggregate(list, adding, kept()))
        assert results == {((last - 2) // 10 * 10, last): [0]}


@few
@given(some_times, st.integers(0, 60))
def test_an_unlimited_window_has_all_records_from_its_start_on(times: list[int], offset: int) -> None:
    start = min(times) + offset
    windows = ps.UnlimitedWindows.of().start_on(start)
    results, _ = windowed(times, lambda it: it.windowed_by(windows).aggregate(list, adding, kept(None)))
    inside = [number for number, time in enumerate(times) if time >= start]
    assert results == ({(start, (1 << 63) - 1): inside} if inside else {})


class TestSlidingWindows:
    @few
    @given(some_times, st.integers(0, 25))
    def test_there_is_one_that_ends_with_each_record_and_one_that_begins_behind_it(
        self, times: list[int], difference: int
    ) -> None:
        windows = ps.SlidingWindows.of_time_difference_and_grace(difference, 1 << 40)
        results, dropped = windowed(times, lambda it: it.windowed_by(windows).aggregate(list, adding, kept()))
        starts = {max(0, time - difference) for time in times} | {time + 1 for time in times}
        expected = {
            (start, start + difference): inside
            for start in starts
            if (inside := [number for number, time in enumerate(times) if start <= time <= start + difference])
        }
        assert (results, dropped) == (expected, 0)

    @few
    @given(some_times, st.integers(0, 10), st.integers(0, 10))
    def test_a_record_is_dropped_once_its_latest_window_is_closed(
        self, times: list[int], difference: int, grace: int
    ) -> None:
        windows = ps.SlidingWindows.of_time_difference_and_grace(difference, grace)
        results, dropped = windowed(times, lambda it: it.windowed_by(windows).aggregate(list, adding, kept()))
        stream_time, late = 0, set()
        for number, time in enumerate(times):
            stream_time = max(stream_time, time)
            if time + difference < stream_time - grace:
                late.add(number)
        counted = {number for inside in results.values() for number in inside}
        assert not counted & late
        assert dropped >= len(late)


class TestSessionWindows:
    @few
    @given(some_times, st.integers(1, 15), st.integers(0, 30))
    def test_records_no_further_apart_than_the_gap_are_one_session(
        self, times: list[int], gap: int, grace: int
    ) -> None:
        windows = ps.SessionWindows.of_inactivity_gap_and_grace(gap, grace)
        results, dropped = windowed(
            times,
            lambda it: it.windowed_by(windows).aggregate(list, adding, lambda key, one, other: one + other, kept()),
        )
        sessions: list[tuple[int, int, list[int]]] = []
        late, stream_time = 0, 0
        for number, time in enumerate(times):
            stream_time = max(stream_time, time)
            near = [each for each in sessions if each[0] - gap <= time <= each[1] + gap]
            start, end = min([time, *(each[0] for each in near)]), max([time, *(each[1] for each in near)])
            if end < stream_time - grace - gap:
                late += 1
                continue
            sessions = [each for each in sessions if each not in near]
            sessions.append((start, end, sorted([number, *(one for each in near for one in each[2])])))
        assert (results, dropped) == ({(start, end): numbers for start, end, numbers in sessions}, late)

    @few
    @given(some_times, st.integers(1, 15), st.randoms(use_true_random=False))
    def test_the_order_of_records_does_not_matter_while_none_is_late(
        self, times: list[int], gap: int, random: Any
    ) -> None:
        def spans(times: list[int]) -> dict[tuple[int, int], int]:
            windows = ps.SessionWindows.of_inactivity_gap_and_grace(gap, 1 << 40)
            results, _ = windowed(
                times,
                lambda it: it.windowed_by(windows).aggregate(list, adding, lambda key, one, other: one + other, kept()),
            )
            return {span: len(numbers) for span, numbers in results.items()}

        assert spans(times) == spans(random.sample(times, len(times)))


Side = tuple[bool, int]
"""True for a record of the left stream, and its time."""


def joined(sides: list[Side], kind: str, windows: ps.JoinWindows) -> Counter[tuple[Any, Any]]:
    """Returns the numbers of the records that were joined; None for a side that was not there."""
    builder = ps.StreamsBuilder()
    left = builder.stream("left", ps.Consumed.with_(STRING, LONG))
    right = builder.stream("right", ps.Consumed.with_(STRING, LONG))
    joins: dict[str, Any] = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
    results = joins[kind](right, lambda one, other: [one, other], windows)
    results.to("out", ps.Produced.with_(STRING, JSON))
    with ps.TopologyTestDriver(builder.build()) as driver:
        topics = {each: driver.create_input_topic("left" if each else "right", STRING, LONG) for each in (True, False)}
        for number, (is_left, time) in enumerate(sides):
            topics[is_left].pipe_input("k", number, time)
        # Records of another key, behind all windows, release what waits for its window to close.
        topics[True].pipe_input("other", -1, FOR_EVER * 2)
        topics[True].pipe_input("other", -1, FOR_EVER * 4)
        pairs = driver.create_output_topic("out", STRING, JSON).read_values_to_list()
    return Counter((one, other) for one, other in filter(None, pairs) if one != -1)


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
@few
@given(
    st.sampled_from(BASES),
    st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_streams_join_what_is_near_and_report_records_without_a_match(
    kind: str, base: int, sides: list[Side], before: int, after: int
) -> None:
    sides = [(is_left, base + time) for is_left, time in sides]
    windows = ps.JoinWindows.of_time_difference_and_grace(0, 1 << 40).before(before).after(after)
    expected: Counter[tuple[Any, Any]] = Counter()
    waiting: dict[int, tuple[Any, Any]] = {}
    stream_time = 0
    for number, (is_left, time) in enumerate(sides):
        stream_time = max(stream_time, time)
        earliest, latest = (before, after) if is_left else (after, before)
        near = [
            other
            for other, (other_is_left, at) in enumerate(sides[:number])
            if other_is_left != is_left and time - earliest <= at <= time + latest
        ]
        for other in near:
            waiting.pop(other, None)
            expected[(number, other) if is_left else (other, number)] += 1
        if not near and (kind == "outer" or (kind == "left" and is_left)):
            alone = (number, None) if is_left else (None, number)
            if time + latest < stream_time:  # no record that is in time can still join it
                expected[alone] += 1
            else:
                waiting[number] = alone
    expected.update(waiting.values())
    assert joined(sides, kind, windows) == expected


class TestNegativeTimes:
    @given(st.integers(-(1 << 63), -1))
    @settings(max_examples=20)
    def test_they_stop_the_application_unless_the_extractor_drops_them(self, time: int) -> None:
        windows = ps.TimeWindows.of_size_with_no_grace(10)

        def aggregated(it: ps.KGroupedStream[str, int]) -> ps.KTable[Windowed, Any]:
            return it.windowed_by(windows).aggregate(list, adding, kept())

        with pytest.raises(ps.InvalidTimestampError, match=str(time)):
            windowed([5, time], aggregated)
        skipping = {"default.timestamp.extractor": ps.LogAndSkipOnInvalidTimestamp()}
        assert windowed([5, time, 6], aggregated, **skipping) == ({(0, 10): [0, 2]}, 1)
