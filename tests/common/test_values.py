"""The small values: ids, records, durations, and where a key goes."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.murmur2 import murmur2, partition_for
from penstock.common.records import NO_HEADERS, Record, RecordBatch, joined
from penstock.common.time import to_epoch_ms, to_ms
from penstock.common.windows import LARGEST_TIMESTAMP, Window


def test_ids_are_written_as_kafka_streams_writes_them() -> None:
    assert str(TaskId(1, 12)) == "1_12"
    assert str(TopicPartition("in-put", 3)) == "in-put-3"


@given(st.builds(TaskId, st.integers(0, 10**6), st.integers(0, 10**6)))
def test_a_task_id_is_read_as_it_is_written(task: TaskId) -> None:
    assert TaskId.parse(str(task)) == task


@pytest.mark.parametrize(
    "text", ["", "_", "1", "1_", "_1", "a_b", "0_1_2", "1__2", "-1_0", "0_-1", "+1_0", "01_2", " 1_2", "1_2\n", "٣_1"]
)
def test_nothing_else_is_read_as_a_task_id(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        TaskId.parse(text)


def test_task_ids_sort_by_number_not_by_text() -> None:
    assert sorted([TaskId(10, 0), TaskId(2, 11), TaskId(2, 2)]) == [(2, 2), (2, 11), (10, 0)]


def test_an_offset_may_be_committed_without_a_text_beside_it() -> None:
    assert CommittedOffset(5) == (5, "")


def test_a_record_has_no_headers_unless_they_are_given() -> None:
    assert Record("k", "v", 0).headers == NO_HEADERS == ()


def test_a_record_is_never_before_1970() -> None:
    with pytest.raises(ValueError, match=r"^a record's timestamp may not be negative: -1 ms$"):
        Record("k", "v", -1)
    with pytest.raises(ValueError, match="negative"):
        Record("k", "v", 0).with_timestamp(-1)


RECORD: Record[Any, Any] = Record("k", "v", 7, (("h", b"x"),))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (RECORD.with_key(None), Record(None, "v", 7, (("h", b"x"),))),
        (RECORD.with_value(2), Record("k", 2, 7, (("h", b"x"),))),
        (RECORD.with_timestamp(0), Record("k", "v", 0, (("h", b"x"),))),
        (RECORD.with_headers(()), Record("k", "v", 7)),
    ],
)
def test_a_changed_record_is_another_one_with_all_else_the_same(changed: object, expected: object) -> None:
    assert changed == expected
    assert Record("k", "v", 7, (("h", b"x"),)) == RECORD


def test_a_record_does_not_change_in_place() -> None:
    with pytest.raises(AttributeError):
        RECORD.value = "other"  # type: ignore[misc]  # that is the point


def test_a_record_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD


def test_a_batch_is_as_long_as_its_columns() -> None:
    batch = RecordBatch(TopicPartition("in", 0), [None, b"k"], [b"v", None], [1, 2], [5, 9])
    assert len(batch) == 2
    assert batch.headers is None


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (0, 0),
        (1500, 1500),
        (timedelta(seconds=1.5), 1500),
        (timedelta(days=365), 31_536_000_000),
    ],
)
def test_a_duration_is_a_timedelta_or_whole_milliseconds(duration: timedelta | int, ms: int) -> None:
    assert to_ms(duration, "grace") == ms


def test_a_fraction_of_a_millisecond_is_refused_instead_of_cut() -> None:
    with pytest.raises(ValueError, match=r"^grace has a fraction of a millisecond \(999 µs\): give whole ones$"):
        to_ms(timedelta(microseconds=1999), "grace")


@pytest.mark.parametrize("duration", [-1, timedelta(milliseconds=-1), timedelta(microseconds=-1)])
def test_a_negative_duration_is_refused(duration: timedelta | int) -> None:
    with pytest.raises(ValueError, match=r"^grace may not be negative: -1 ms$"):
        to_ms(duration, "grace")


def test_a_time_has_63_bits_as_in_kafka() -> None:
    assert to_ms(2**63 - 1, "grace") == to_epoch_ms(2**63 - 1, "grace") == 2**63 - 1
    for convert in (to_ms, to_epoch_ms):
        with pytest.raises(ValueError, match=rf"^grace is too large: {2**63} ms\. Kafka's times have 63 bits$"):
            convert(2**63, "grace")


@pytest.mark.parametrize("duration", [1.5, True, "5", None])
def test_anything_else_is_no_duration(duration: Any) -> None:
    with pytest.raises(TypeError, match=r"^grace must be a timedelta or whole milliseconds, not "):
        to_ms(duration, "grace")


# What UtilsTest of Kafka's own clients expects; Java prints the bits as a signed number.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32
    assert partition_for(key, 7) == (signed & 0x7FFFFFFF) % 7


@given(st.binary(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


def test_the_ends_of_a_window_as_times() -> None:
    window = Window(1_500, 86_400_000)
    assert window.start_time() == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert window.end_time() == datetime(1970, 1, 2, tzinfo=UTC)
    with pytest.raises(OverflowError, match="after the year 9999"):
        Window(0, LARGEST_TIMESTAMP).end_time()


def _batch_with_holes() -> RecordBatch:
    keys: list[bytes | None] = [b"a", b"b", None]
    return RecordBatch(
        TopicPartition("in", 0), keys, [b"1", None, b"3"], [7, 8, 9], [5, 9, 12], [None, [("h", b"x")], None]
    )


def test_a_part_of_a_batch_has_the_records_between_two_indexes() -> None:
    part = _batch_with_holes().part(1, 3)
    assert part.keys == [b"b", None]
    assert part.values == [None, b"3"]
    assert part.timestamps == [8, 9]
    assert part.offsets == [9, 12]
    assert part.headers == [[("h", b"x")], None]


@pytest.mark.parametrize(("offset", "count"), [(5, 0), (6, 1), (9, 1), (10, 2), (12, 2), (13, 3)])
def test_the_records_before_an_offset_are_those_below_it_also_if_no_record_has_it(offset: int, count: int) -> None:
    batch = _batch_with_holes()
    assert batch.before(offset) == (batch if count == 3 else batch.part(0, count))
    assert (batch.before(offset) is batch) == (count == 3)


def test_chosen_records_have_the_order_of_their_indexes() -> None:
    chosen = _batch_with_holes().chosen([2, 0])
    assert (chosen.keys, chosen.offsets, chosen.headers) == ([None, b"a"], [12, 5], [None, None])


def test_joined_batches_are_cut_into_the_same_parts_again() -> None:
    whole = _batch_with_holes()
    assert joined([whole.part(0, 1), whole.part(1, 1), whole.part(1, 3)]) == whole
    assert joined([whole]) is whole
