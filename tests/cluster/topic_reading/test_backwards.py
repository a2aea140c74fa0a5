"""The scan for the records of a key: each is found once, in as many answers as it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.topic_reading.backwards import Backwards, start_of, within
from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.records import RecordBatch

Log = list[bytes | None]
"""The keys of a partition's records; None for an offset without a record."""


def batch_of(number: int, log: Log, offsets: OffsetRange) -> RecordBatch:
    """Returns the records at ``offsets``."""
    found = [(offset, key) for offset in range(offsets.begin, offsets.end) if (key := log[offset]) is not None]
    none: list[bytes | None] = [None] * len(found)
    keys: list[bytes | None] = [key for _, key in found]
    return RecordBatch(TopicPartition("t", number), keys, none, [0] * len(found), [offset for offset, _ in found])


def scan(logs: list[Log], limit: int, offsets: int, cursor: str | None = None) -> Backwards:
    ranges = {number: OffsetRange(0, len(log)) for number, log in enumerate(logs)}
    found = Backwards(ranges, lambda key: key == b"k", limit, offsets, start_of(cursor))
    while window := found.next_window():
        for number, wanted in window.items():
            found.take(batch_of(number, logs[number], wanted))
            found.end_window(number)
    return found


keys = st.sampled_from([b"k", b"other", None])


@given(st.lists(st.lists(keys, max_size=80), max_size=3), st.integers(1, 20), st.integers(1, 100))
def test_all_answers_together_have_each_record_of_the_key_once(logs: list[Log], limit: int, offsets: int) -> None:
    found: list[tuple[int, int]] = []
    cursor: str | None = None
    for _ in range(300):
        answer = scan(logs, limit, offsets, cursor)
        assert len(answer.records) <= limit
        found += [(record.partition, record.offset) for record in answer.records]
        cursor = answer.cursor
        if cursor is None:
            break
    assert cursor is None
    wanted = [(n, offset) for n, log in enumerate(logs) for offset in reversed(range(len(log))) if log[offset] == b"k"]
    assert found == wanted


def test_it_looks_at_no_more_offsets_than_it_may_and_says_how_far_it_has_come() -> None:
    log: Log = [b"k", *[b"other"] * 999]
    answer = scan([log], 10, 300)
    assert [(each.begin, each.reached, each.end) for each in answer.looked] == [(0, 700, 1000)]
    assert (answer.records, answer.stopped, answer.cursor) == ([], "300 offsets", "0:700")
    assert scan([[b"k"] * 1000], 10, 300).stopped is None, "it has found as many as were asked for"
    assert scan([[b"other"] * 100], 10, 300).stopped is None, "it has looked at all"


def test_a_window_that_is_not_read_to_its_end_counts_for_nothing() -> None:
    log: Log = [b"k"] * 100
    found = Backwards({0: OffsetRange(0, 100)}, lambda key: key == b"k", 50, 1000)
    window = found.next_window()[0]
    found.take(batch_of(0, log, window))
    found.end_window(0)
    window = found.next_window()[0]
    found.take(batch_of(0, log, OffsetRange(window.begin, window.begin + 3)))
    assert [record.offset for record in found.records] == [99, 98, 97, 96]
    assert found.cursor == "0:96"


def test_a_cursor_outside_of_the_partition_is_moved_into_it() -> None:
    for cursor, reached in (("0:5000", 100), ("0:0", 0), ("7:3", 0)):
        found = Backwards({0: OffsetRange(0, 100)}, lambda key: False, 1, 1000, start_of(cursor))
        assert [each.reached for each in found.looked] == [reached]


@pytest.mark.parametrize(
    "cursor", ["", "x", "1", "1:", ":1", "1:-1", "1:2,", "1:2,3:4", "١:1", "0:" + "9" * 30, "{}", "1:2;3"]
)
def test_a_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="not a cursor of an earlier answer"):
        start_of(cursor)


def test_only_partitions_that_there_are_can_be_wanted() -> None:
    ranges = {0: OffsetRange(0, 1), 1: OffsetRange(0, 2)}
    assert within(ranges, None) == ranges
    assert within(ranges, (1, 5)) == {1: OffsetRange(0, 2)}


def test_the_cursor_of_a_topic_with_ten_thousand_partitions_is_short() -> None:
    ranges = {number: OffsetRange(0, 10**12) for number in range(10_000)}
    found = Backwards(ranges, lambda key: False, 1, 10**6, start_of("5000:7"))
    assert [each.reached for each in found.looked][4998:5003] == [0, 0, 7, 10**12, 10**12]
    assert found.cursor == "5000:7"
