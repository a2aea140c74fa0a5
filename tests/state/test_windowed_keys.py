"""The bytes of windowed keys, against Kafka Streams' examples and against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.common.windows import LARGEST_TIMESTAMP, Window
from penstock.state.windowed.keys import (
    LARGEST_SEQUENCE,
    SessionKeySchema,
    WindowKeySchema,
    changelog_key,
    last_row_key,
)
from penstock.state.windowed.segments import pack_segment

WINDOWS = WindowKeySchema(window_size_ms=5)
SESSIONS = SessionKeySchema()

times = st.one_of(st.integers(0, 300), st.integers(0, LARGEST_TIMESTAMP))
keys = st.one_of(st.binary(max_size=4), st.text("\0\1Aa", max_size=4).map(str.encode))


def test_the_key_of_a_window_is_key_start_and_sequence_number_as_kafka_streams_writes_it() -> None:
    assert (b"A" + WINDOWS.suffix(10, 0)).hex() == "41000000000000000a00000000"
    assert (b"A" + WINDOWS.suffix(10, 1)).hex() == "41000000000000000a00000001"


def test_the_key_of_a_session_is_key_end_and_start_as_kafka_streams_writes_it() -> None:
    assert (b"A" + SESSIONS.suffix(Window(5, 20))).hex() == "4100000000000000140000000000000005"


def test_the_window_is_read_from_changelog_keys_and_row_keys_alike() -> None:
    for front in (b"", b"A", pack_segment(3) + b"A"):
        assert WINDOWS.window(front + WINDOWS.suffix(10, 7)) == Window(10, 15)
        assert SESSIONS.window(front + SESSIONS.suffix(Window(5, 20))) == Window(5, 20)


def test_the_changelog_key_is_the_row_key_without_its_segment() -> None:
    assert changelog_key(pack_segment(3) + b"A" + WINDOWS.suffix(10, 0)).hex() == "41000000000000000a00000000"


def test_a_window_that_would_end_behind_the_largest_timestamp_ends_there() -> None:
    start = LARGEST_TIMESTAMP - 2
    assert WINDOWS.window(b"A" + WINDOWS.suffix(start, 0)) == Window(start, LARGEST_TIMESTAMP)


@given(start=times, sequence=st.integers(0, LARGEST_SEQUENCE), time=times)
def test_suffixes_of_windows_sort_between_the_first_and_the_last_of_their_time_alone(
    start: int, sequence: int, time: int
) -> None:
    suffix = WINDOWS.suffix(start, sequence)
    assert (WINDOWS.first(time) <= suffix <= WINDOWS.last(time)) == (start == time)


@given(bounds=st.tuples(times, times).map(sorted), time=times)
def test_suffixes_of_sessions_sort_between_the_first_and_the_last_of_their_end_alone(
    bounds: list[int], time: int
) -> None:
    suffix = SESSIONS.suffix(Window(*bounds))
    assert (SESSIONS.first(time) <= suffix <= SESSIONS.last(time)) == (bounds[1] == time)


@given(key=keys, largest=times, other=keys, time=times, sequence=st.integers(0, LARGEST_SEQUENCE))
def test_no_row_of_a_key_and_time_in_range_lies_behind_the_last_row_key(
    key: bytes, largest: int, other: bytes, time: int, sequence: int
) -> None:
    key, other = max(key, other), min(key, other)
    row = other + WINDOWS.suffix(min(time, largest), sequence)
    assert row <= last_row_key(key, WINDOWS.last(largest))


@given(key=keys, largest=times)
def test_the_last_row_key_is_that_of_a_row_that_may_exist(key: bytes, largest: int) -> None:
    last = last_row_key(key, WINDOWS.last(largest))
    assert last[: -WINDOWS.suffix_bytes] <= key
    assert WINDOWS.time(last) == largest
