"""The segments of a store, and those of them that are live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.windowed.segments import NOTHING_OBSERVED, Segments, pack_segment

retentions = st.one_of(st.integers(0, 400_000), st.integers(0, 1 << 40))
times = st.one_of(st.integers(0, 1_000_000), st.integers(0, 1 << 42))


@pytest.mark.parametrize(
    ("retention_ms", "interval_ms"), [(0, 60_000), (119_999, 60_000), (120_001, 60_000), (120_002, 60_001)]
)
def test_a_segment_spans_half_of_the_retention_and_a_minute_at_least(retention_ms: int, interval_ms: int) -> None:
    assert Segments(retention_ms).interval_ms == interval_ms


def test_segments_are_numbered_by_time_and_their_bytes_sort_alike() -> None:
    segments = Segments(retention_ms=200_000)
    assert [segments.of(time) for time in (0, 99_999, 100_000, 250_000)] == [0, 0, 1, 2]
    assert segments.last_timestamp(1) == 199_999
    assert pack_segment(1).hex() == "0000000000000001"
    assert pack_segment(255) < pack_segment(256)


def test_nothing_has_expired_while_nothing_was_observed() -> None:
    segments = Segments(retention_ms=0)
    assert segments.first_live(NOTHING_OBSERVED) == 0
    assert segments.first_visible(NOTHING_OBSERVED) == 0


def test_rows_are_hidden_by_the_ms_and_deleted_by_the_segment() -> None:
    segments = Segments(retention_ms=200_000)
    assert segments.first_visible(250_000) == 50_001
    assert segments.first_live(250_000) == 0
    assert segments.first_live(300_000) == 1


@given(retention_ms=retentions, stream_time=times, timestamp=times)
def test_a_visible_timestamp_is_in_a_live_segment(retention_ms: int, stream_time: int, timestamp: int) -> None:
    segments = Segments(retention_ms)
    if timestamp >= segments.first_visible(stream_time):
        assert segments.of(timestamp) >= segments.first_live(stream_time)


@given(retention_ms=retentions, timestamp=times)
def test_a_timestamp_lies_in_the_span_of_its_segment(retention_ms: int, timestamp: int) -> None:
    segments = Segments(retention_ms)
    segment = segments.of(timestamp)
    assert segments.last_timestamp(segment - 1) < timestamp <= segments.last_timestamp(segment)


@given(retention_ms=retentions, stream_time=times)
def test_at_most_three_segments_hold_what_is_visible(retention_ms: int, stream_time: int) -> None:
    segments = Segments(retention_ms)
    assert segments.of(stream_time) - segments.of(segments.first_visible(stream_time)) <= 2
