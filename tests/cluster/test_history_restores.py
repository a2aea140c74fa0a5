"""Restores in the history of an application."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.application_history import EventKind
from penstock.cluster.events import ActorRecovered
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.ids import TaskId
from tests.cluster.test_history_events import Noted


def reported(*tasks: TaskStatus) -> ActorStatus:
    return ActorStatus("stream/1", "a", 1, 1, tasks)


def restoring(partition: int, restored: int) -> TaskStatus:
    return TaskStatus(TaskId(0, partition), TaskState.RESTORING, restore_total=restored, restore_remaining=9)


def test_restores_are_noted_with_their_records_and_duration() -> None:
    noted = Noted()
    noted.history.reported(reported(restoring(0, 10), restoring(1, 0)))
    noted.now_ms += 2_000
    running = replace(restoring(0, 500), state=TaskState.RUNNING)
    noted.history.reported(reported(running, restoring(1, 70)))
    noted.now_ms += 60_000
    noted.history.reported(reported(running, replace(restoring(1, 12_000), state=TaskState.RUNNING)))
    assert noted.of(EventKind.RESTORE) == [
        "tasks 0_0, 0_1 restore their stores on stream/1",
        "task 0_0 has restored 500 records in 2.0 s on stream/1",
        "task 0_1 has restored 12,000 records in 62 s on stream/1",
    ]


def test_restores_that_end_together_have_the_duration_of_the_longest() -> None:
    noted = Noted()
    noted.history.reported(reported(restoring(0, 10)))
    noted.now_ms += 3_000
    noted.history.reported(reported(restoring(0, 10), restoring(1, 10)))
    noted.history.sample(ApplicationStatus("app", ApplicationState.RUNNING, 1, (reported(),), {}), [])
    noted.now_ms += 1_000
    noted.history.reported(reported(*(replace(restoring(n, 20), state=TaskState.RUNNING) for n in range(2))))
    assert noted.of(EventKind.RESTORE)[-1] == "tasks 0_0, 0_1 have restored 40 records in 4.0 s on stream/1"


@pytest.mark.parametrize("state", [None, TaskState.CREATED, TaskState.CLOSED])
def test_a_restore_that_ends_with_its_task_elsewhere_or_closed_is_not_noted_as_done(state: TaskState | None) -> None:
    noted = Noted()
    noted.history.reported(reported(restoring(0, 10)))
    noted.history.reported(reported(*([] if state is None else [replace(restoring(0, 10), state=state)])))
    assert len(noted.of(EventKind.RESTORE)) == 1


def test_restores_of_actors_that_are_gone_are_forgotten() -> None:
    noted = Noted(restarted=True)
    noted(ActorRecovered("stream/2", 5, frozenset(), node="a"))
    noted.history.reported(reported(restoring(0, 10)))
    noted.history.sample(ApplicationStatus("app", ApplicationState.RUNNING, 1, (), {}), [])
    assert (noted.history._restores._under_way, noted.history._restores._found) == ({}, set())


def test_a_restore_that_a_restarted_coordinator_has_found_has_no_duration() -> None:
    noted = Noted(restarted=True)
    noted(ActorRecovered("stream/1", 5, frozenset({TaskId(0, 0)}), node="a"))
    noted.history.reported(reported(restoring(0, 10)))
    running = replace(restoring(0, 500), state=TaskState.RUNNING)
    noted.history.reported(reported(running, restoring(1, 0)))
    noted.now_ms += 2_000
    noted.history.reported(reported(running, replace(restoring(1, 7), state=TaskState.RUNNING)))
    assert [sentence for sentence in noted.of(EventKind.RESTORE) if "restored" in sentence] == [
        "task 0_0 has restored 500 records on stream/1",
        "task 0_1 has restored 7 records in 2.0 s on stream/1",
    ]
