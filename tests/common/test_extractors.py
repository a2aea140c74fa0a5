"""The answer of each timestamp extractor for a record with a timestamp, and for one without."""

from __future__ import annotations

from time import time_ns
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.common.errors import InvalidTimestampError
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from penstock.common.records import Record, RecordMetadata

AT = RecordMetadata("in", 3, 42)
EXTRACTORS = [FailOnInvalidTimestamp(), LogAndSkipOnInvalidTimestamp(), UsePartitionTimeOnInvalidTimestamp()]


def extract(extractor: TimestampExtractor, broker_timestamp: int, partition_time: int) -> int:
    record: Record[Any, Any] = Record("k", "v", max(broker_timestamp, 0))
    return extractor(record, broker_timestamp, partition_time, AT)


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("broker_timestamp", "partition_time"), [(0, -1), (5, -1), (5, 7), (7, 5), (0, 9)])
def test_a_valid_timestamp_is_taken_even_if_it_is_late(
    extractor: TimestampExtractor, broker_timestamp: int, partition_time: int
) -> None:
    with capture_logs() as lines:
        assert extract(extractor, broker_timestamp, partition_time) == broker_timestamp
    assert lines == []


@pytest.mark.parametrize("partition_time", [-1, 0, 7])
def test_fail_on_invalid_timestamp_refuses_a_negative_one_whatever_came_before(partition_time: int) -> None:
    with pytest.raises(InvalidTimestampError) as refused:
        extract(FailOnInvalidTimestamp(), -1, partition_time)
    error = refused.value
    assert (error.topic, error.partition, error.offset, error.key) == ("in", 3, 42, "k")
    assert "no valid timestamp (-1 ms)" in str(error)
    assert "LogAndSkipOnInvalidTimestamp" in str(error), "what to do about it"


@pytest.mark.parametrize("timestamp", [-1, -5])
def test_log_and_skip_returns_the_negative_timestamp_and_logs_the_records_offset(timestamp: int) -> None:
    with capture_logs() as lines:
        assert extract(LogAndSkipOnInvalidTimestamp(), timestamp, 7) == timestamp
    (line,) = lines
    assert (line["log_level"], line["at"]) == ("warning", str(AT))


@pytest.mark.parametrize("partition_time", [0, 7])
def test_use_partition_time_takes_the_partitions_time_in_place_of_a_negative_one(partition_time: int) -> None:
    assert extract(UsePartitionTimeOnInvalidTimestamp(), -1, partition_time) == partition_time


def test_use_partition_time_refuses_a_negative_one_that_nothing_came_before() -> None:
    with pytest.raises(InvalidTimestampError, match="none of its partition came before it") as refused:
        extract(UsePartitionTimeOnInvalidTimestamp(), -1, -1)
    error = refused.value
    assert (error.topic, error.partition, error.offset, error.key) == ("in", 3, 42, "k")


def test_a_null_key_is_no_hindrance() -> None:
    with pytest.raises(InvalidTimestampError) as refused:
        FailOnInvalidTimestamp()(Record(None, None, 0), -1, -1, AT)
    assert "key" not in str(refused.value)


def test_the_wall_clock_is_the_time_of_every_record() -> None:
    before = time_ns() // 1_000_000
    times = [extract(WallclockTimestampExtractor(), broker_timestamp, 7) for broker_timestamp in (-1, 0, 1 << 62)]
    assert before <= times[0] <= times[1] <= times[2] <= time_ns() // 1_000_000


def test_an_extractor_that_has_the_method_of_java_is_refused_when_it_is_made() -> None:
    class FromJava(ps.TimestampExtractor):
        def extract(self, record: Any, partition_time: int) -> int:
            return 0

    with pytest.raises(TypeError, match="__call__"):
        FromJava()  # type: ignore[abstract]
