"""Tasks that are stuck although they have records to read; the test sets the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.status import StuckTask
from penstock.cluster.watchers.silence import HUNG_S
from penstock.cluster.watchers.stuck_task_watch import StuckTaskWatch, patience_s
from penstock.cluster.watchers.stuck_tasks import StuckTasks
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import logger

LINES, WORDS = TopicPartition("lines", 1), TopicPartition("words", 1)
TASK = TaskStatus(
    TaskId(0, 1), TaskState.RUNNING, 40, lags={LINES: 7, WORDS: 2}, committed={LINES: 38}, positions={LINES: 40}
)


def actor(*tasks: TaskStatus, name: str = "actor-1") -> ActorStatus:
    return ActorStatus(name, "node", 1, 1, tasks)


def test_a_task_that_lags_and_comes_no_further_is_stuck_after_its_time_and_is_reported_with_its_place() -> None:
    tasks = StuckTasks(60)
    assert tasks.look(0, [actor(TASK)], True) == ()
    assert tasks.look(59.9, [actor(TASK)], True) == ()
    (stuck,) = tasks.look(60, [actor(TASK)], True)
    assert stuck == StuckTask(TaskId(0, 1), "actor-1", "lines", 1, 40, 7, 60)
    assert str(stuck) == (
        "task 0_1 on actor-1 has processed nothing for 60 s: it is at offset 40 of partition 1 of topic 'lines', "
        "7 records before its end"
    )


@pytest.mark.parametrize(
    "further",
    [
        replace(TASK, records_processed=41),
        replace(TASK, positions={LINES: 41}),  # it has skipped records that are gone
    ],
    ids=["a record", "a position"],
)
def test_any_progress_begins_its_time_again(further: TaskStatus) -> None:
    tasks = StuckTasks(60)
    tasks.look(0, [actor(TASK)], True)
    assert tasks.look(50, [actor(further)], True) == ()
    assert tasks.look(109, [actor(further)], True) == ()
    assert len(tasks.look(110, [actor(further)], True)) == 1


def test_more_records_at_the_source_are_no_progress() -> None:
    tasks = StuckTasks(60)
    tasks.look(0, [actor(TASK)], True)
    assert len(tasks.look(60, [actor(replace(TASK, lags={LINES: 99}))], True)) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(TASK, state=TaskState.RESTORING),
        replace(TASK, state=TaskState.CREATED),
        replace(TASK, lags={LINES: 0, WORDS: 0}),
        replace(TASK, lags={}),
    ],
    ids=["restores", "is not begun", "has read all", "knows no lag"],
)
def test_one_that_has_nothing_to_do_or_may_not_yet_is_not_stuck_and_its_time_begins_afterwards(
    other: TaskStatus,
) -> None:
    tasks = StuckTasks(60)
    for now_s in (0, 60, 10_000):
        assert tasks.look(now_s, [actor(other)], True) == ()
    assert tasks.look(10_001, [actor(TASK)], True) == ()
    assert len(tasks.look(10_061, [actor(TASK)], True)) == 1


def test_while_nobody_may_work_nobody_is_stuck_and_all_time_begins_afterwards() -> None:
    tasks = StuckTasks(60)
    tasks.look(0, [actor(TASK)], True)
    assert tasks.look(100, [actor(TASK)], False) == ()
    assert tasks.look(101, [actor(TASK)], True) == ()
    assert tasks.look(160, [actor(TASK)], True) == ()
    assert len(tasks.look(161, [actor(TASK)], True)) == 1


def test_on_another_actor_its_time_begins_again() -> None:
    tasks = StuckTasks(60)
    tasks.look(0, [actor(TASK)], True)
    assert tasks.look(59, [actor(TASK, name="actor-2")], True) == ()
    assert tasks.look(118, [actor(TASK, name="actor-2")], True) == ()
    assert len(tasks.look(119, [actor(TASK, name="actor-2")], True)) == 1


def test_only_the_one_that_is_unresponsive_is_stuck() -> None:
    tasks, other = StuckTasks(60), replace(TASK, task_id=TaskId(0, 0))
    for second in range(0, 120, 10):
        moving = replace(other, records_processed=second)
        stuck = tasks.look(second, [actor(moving, TASK)], True)
    assert [each.task_id for each in stuck] == [TaskId(0, 1)]


def test_its_time_is_that_of_a_silent_actor_after_the_longest_wait_for_an_empty_partition() -> None:
    def config(**entries: int) -> StreamsConfig:
        return StreamsConfig.of({"application.id": "app", **{k.replace("_", "."): v for k, v in entries.items()}})

    assert patience_s(config()) == HUNG_S
    assert patience_s(config(max_task_idle_ms=600_000)) == HUNG_S + 600
    assert patience_s(config(max_task_idle_ms=-1)) == HUNG_S


def test_the_log_reports_once_that_a_task_is_stuck_and_once_that_it_continues() -> None:
    seconds = iter((0.0, HUNG_S, HUNG_S + 2, HUNG_S + 4, HUNG_S + 6))
    config = StreamsConfig.of({"application.id": "app"})
    with capture_logs() as lines:
        watch = StuckTaskWatch(config, lambda: next(seconds), logger(__name__))
        for _ in range(4):
            watch.look([actor(TASK)], True)
        assert [it.task_id for it in watch.stuck] == [TASK.task_id]
        watch.look([actor(replace(TASK, records_processed=41))], True)
    assert [line["event"] for line in lines] == ["task is stuck", "task is not stuck any more"]
    assert {"task": "0_1", "actor": "actor-1", "topic": "lines", "partition": 1, "offset": 40, "lag": 7}.items() <= (
        lines[0].items()
    )
    assert lines[1]["task"] == "0_1"
    assert not watch.stuck
