"""The task that gets most of the records of its sub-topology is found, and other slow tasks are not taken for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.actors.status import TaskState, TaskStatus
from penstock.cluster.skew import Skew, skew_of
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import TASK

HOT = TopicPartition("views", 3)


def task(number: int, rate: float | None, lag: int, processed: int, subtopology: int = 1) -> TaskStatus:
    return TaskStatus(
        TaskId(subtopology, number),
        TaskState.RUNNING,
        records_processed=processed,
        lags={TopicPartition("views", number): lag},
        measured={} if rate is None else {(TASK, "process-rate"): rate},
    )


OTHERS = [task(number, 20.0, 1, 2_000) for number in range(3)] + [task(0, 5_000.0, 90_000, 9_000_000, 0)]


def found(hot: TaskStatus, others: list[TaskStatus] = OTHERS) -> Skew | None:
    return skew_of(hot, [*others, hot])


def test_a_task_with_most_of_the_records_and_of_the_lag_is_found_with_its_partition() -> None:
    skew = found(task(3, 440.0, 9_997, 40_000))
    assert skew is not None
    assert (round(skew.processed, 2), round(skew.waiting, 4), skew.source) == (0.88, 0.9997, HOT)


@pytest.mark.parametrize(
    "hot",
    [
        pytest.param(task(3, 25.0, 9_997, 40_000), id="it processes no more than others: it is slow"),
        pytest.param(task(3, 440.0, 9_997, 100, 2), id="it is alone in its sub-topology"),
        pytest.param(task(3, 440.0, 1_000, 100), id="it has got less than others since it began: it catches up"),
        pytest.param(task(3, None, 9_997, 40_000), id="its rate is not known"),
        pytest.param(task(3, 440.0, 0, 40_000), id="nothing waits for it"),
    ],
)
def test_other_tasks_that_are_behind_have_no_skew(hot: TaskStatus) -> None:
    assert found(hot) is None


def test_tasks_that_are_all_behind_have_no_skew() -> None:
    late = [replace(each, lags={TopicPartition("views", each.task_id.partition): 9_000}) for each in OTHERS]
    assert found(task(3, 440.0, 9_997, 40_000), late) is None
    assert found(task(3, 440.0, 9_997, 40_000), OTHERS[:1]) is None, "two tasks: one of them always has more"


def test_tasks_that_process_nothing_have_no_skew() -> None:
    idle = [replace(each, measured={(TASK, "process-rate"): 0.0}) for each in OTHERS]
    assert found(task(3, 0.0, 9_997, 40_000), idle) is None


def test_twice_the_rate_of_two_other_tasks_is_enough() -> None:
    assert found(task(3, 40.0, 9_997, 40_000), OTHERS[:2]) is not None
    assert found(task(3, 39.9, 9_997, 40_000), OTHERS[:2]) is None


def test_records_that_wait_count_as_given_to_a_task() -> None:
    skew = found(task(3, 45.0, 9_997, 100))
    assert skew is not None
    assert round(skew.processed, 2) == 0.43


def test_of_several_partitions_the_one_in_which_most_records_wait_is_named() -> None:
    lags = {TopicPartition("clicks", 3): 500, HOT: 9_997, TopicPartition("zones", 3): 7}
    skew = found(replace(task(3, 440.0, 0, 40_000), lags=lags))
    assert skew is not None
    assert skew.source == HOT
