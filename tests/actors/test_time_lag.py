"""The seconds that a task is behind the ends of its source partitions."""

from __future__ import annotations

from pathlib import Path

from penstock.actors.task_host.time_lag import TimeLag
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from tests.actors.rig import Rig, settle
from tests.actors.test_metrics import task_of

IN, OTHER = TopicPartition("in", 0), TopicPartition("other", 0)
NOW_MS = 1_000_000


def batch(partition: TopicPartition, first: int, timestamp: int, records: int = 1) -> RecordBatch:
    offsets = list(range(first, first + records))
    return RecordBatch(partition, [b"k"] * records, [b"v"] * records, [timestamp] * records, offsets)


def test_a_task_is_as_far_behind_as_its_next_record_is_old() -> None:
    lag = TimeLag()
    for first, timestamp in ((0, NOW_MS - 40_000), (10, NOW_MS - 30_000), (20, NOW_MS - 20_000)):
        lag.fetched(batch(IN, first, timestamp, records=10))
    assert lag.look({IN: 30}, {IN: 0}, 100.0, NOW_MS) == 40.0
    assert lag.look({IN: 15}, {IN: 15}, 100.0, NOW_MS) == 30.0
    assert lag.look({IN: 10}, {IN: 20}, 100.0, NOW_MS) == 20.0
    assert lag.look({IN: 0}, {IN: 30}, 100.0, NOW_MS) == 0.0


def test_after_it_was_at_the_end_timestamps_do_not_make_it_later_than_that() -> None:
    lag = TimeLag()
    lag.fetched(batch(IN, 0, timestamp=0))
    assert lag.look({IN: 0}, {IN: 1}, 100.0, NOW_MS) == 0.0
    lag.fetched(batch(IN, 1, timestamp=0))
    assert lag.look({IN: 5}, {IN: 1}, 103.0, NOW_MS) == 3.0


def test_a_record_that_is_not_fetched_yet_is_no_older_than_the_last_look_at_the_end() -> None:
    lag = TimeLag()
    lag.fetched(batch(IN, 0, NOW_MS - 3_600_000))
    assert lag.look({IN: 0}, {IN: 1}, 100.0, NOW_MS) == 0.0
    assert lag.look({IN: 1}, {IN: 1}, 100.5, NOW_MS) == 0.5, "the topic was idle for an hour"


def test_the_time_lag_is_unknown_before_the_first_record_and_never_negative() -> None:
    lag = TimeLag()
    assert lag.look({IN: 7}, {IN: 0}, 100.0, NOW_MS) is None
    lag.fetched(batch(IN, 0, NOW_MS + 5_000))
    assert lag.look({IN: 7}, {IN: 0}, 100.0, NOW_MS) == 0.0


def test_of_several_partitions_the_one_that_is_furthest_behind_counts() -> None:
    lag = TimeLag()
    lag.fetched(batch(IN, 0, NOW_MS - 2_000))
    lag.fetched(batch(OTHER, 0, NOW_MS - 9_000))
    assert lag.look({IN: 1, OTHER: 1}, {}, 100.0, NOW_MS) == 9.0
    assert lag.look({IN: 1, OTHER: 1, TopicPartition("third", 0): 1}, {}, 100.0, NOW_MS) is None


def test_records_that_come_again_after_an_abort_count_again() -> None:
    lag = TimeLag()
    lag.fetched(batch(IN, 0, NOW_MS - 9_000, records=10))
    lag.fetched(batch(IN, 10, NOW_MS - 8_000, records=10))
    assert lag.look({IN: 5}, {IN: 15}, 100.0, NOW_MS) == 8.0
    lag.fetched(batch(IN, 0, NOW_MS - 9_000, records=10))
    assert lag.look({IN: 20}, {IN: 0}, 100.0, NOW_MS) == 9.0


def test_only_batches_that_may_hold_the_next_record_are_remembered() -> None:
    lag = TimeLag()
    for first in range(10_000):
        lag.fetched(batch(IN, first, first))
    assert len(lag._batches[IN]) == 1000


def test_an_actor_reports_the_time_lag_of_its_tasks(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    assert task_of(loop).behind_s == 0.0
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert task_of(loop).behind_s == 0.0
