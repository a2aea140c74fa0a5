"""The log lines for records that tasks drop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.watchers.dropped_records import DroppedRecords
from penstock.common.ids import TaskId
from penstock.common.log import logger


class Heard:
    """Reports of actors at a given time, and the lines that they lead to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.dropped = DroppedRecords(lambda: self.now, logger(__name__))

    def __call__(self, actor: str = "stream/1", later_s: float = 0.5, **tasks: int) -> list[dict[str, Any]]:
        self.now += later_s
        reported = tuple(
            TaskStatus(TaskId.parse(task[1:]), TaskState.RUNNING, dropped_records=count)
            for task, count in tasks.items()
        )
        with capture_logs() as message:
            self.dropped.reported(ActorStatus(actor, "node", 1, 1, reported))
        return [{key: line[key] for key in ("task", "records", "since_the_task_began")} for line in message]


def test_the_first_are_reported_at_once_and_the_next_together_after_half_a_minute() -> None:
    heard = Heard()
    assert heard(_0_0=0, _0_1=0) == []
    assert heard(_0_0=2, _0_1=0) == [{"task": "0_0", "records": 2, "since_the_task_began": 2}]
    assert heard(_0_0=3) == []
    assert heard(_0_0=9) == []
    assert heard(later_s=30, _0_0=10) == [{"task": "0_0", "records": 8, "since_the_task_began": 10}]
    assert heard(later_s=300, _0_0=10) == [], "nothing new"


def test_if_the_counter_of_a_task_restarts_at_zero_its_whole_value_is_reported() -> None:
    heard = Heard()
    heard(_0_0=5)
    assert heard(later_s=31, _0_0=0) == []
    assert heard(later_s=31, _0_0=1) == [{"task": "0_0", "records": 1, "since_the_task_began": 1}]


def test_a_task_on_another_actor_is_another_count() -> None:
    heard = Heard()
    heard("stream/1", _0_0=5)
    assert heard("stream/2", _0_0=1) == [{"task": "0_0", "records": 1, "since_the_task_began": 1}]
    heard("stream/1")
    assert heard("stream/1", _0_0=2) == [{"task": "0_0", "records": 2, "since_the_task_began": 2}]


def test_records_dropped_by_a_handler_are_not_reported_again() -> None:
    heard = Heard()
    by_handler = TaskStatus(TaskId(0, 0), TaskState.RUNNING, dropped_records=5, dropped_by_handlers=5)
    with capture_logs() as message:
        heard.dropped.reported(ActorStatus("stream/1", "node", 1, 1, (by_handler,)))
    assert message == []
    heard.now += 31
    with capture_logs() as message:
        late = replace(by_handler, dropped_records=7)
        heard.dropped.reported(ActorStatus("stream/1", "node", 1, 1, (late,)))
    assert [line["records"] for line in message] == [2]
