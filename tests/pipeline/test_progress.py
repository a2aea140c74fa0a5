"""The progress of a backfill: tasks of Spark, then the records of a stage with their rate and the time left."""

from __future__ import annotations

import threading

import pytest

from penstock.common.errors import ObjectStoreError
from penstock.common.step_progress import RECORDS, StepProgress
from penstock.pipeline.backfill import progress
from penstock.pipeline.backfill.progress import Meter
from tests.waiting import PATIENCE_S, eventually


class Work:
    """A stage whose tasks have taken ``rows``; None: its place does not answer."""

    rows: int | None = 0

    def taken(self) -> int:
        if self.rows is None:
            raise ObjectStoreError("gone")
        return self.rows


class Watched:
    """A meter with its clock and its reports."""

    def __init__(self) -> None:
        self.now, self.tasks = 0.0, (0, 0)
        self.shown: list[StepProgress] = []
        self.meter = Meter(lambda: self.tasks, self.shown.append, lambda: self.now)

    def look(self, at: float) -> StepProgress:
        self.now = at
        self.meter.look()
        return self.shown[-1]


def test_a_stage_is_measured_in_tasks_until_they_take_records_and_then_in_records() -> None:
    watched, work = Watched(), Work()
    watched.meter.begin("stage 1", work, 1000)
    watched.tasks = (1, 4)
    assert watched.look(1) == StepProgress("stage 1", 1, 4)
    work.rows = 100
    assert watched.look(2) == StepProgress("stage 1", 100, 1000, RECORDS)
    work.rows = 300
    assert watched.look(4) == StepProgress("stage 1", 300, 1000, RECORDS, 100.0, 7.0)


def test_more_records_than_offsets_foretold_are_all_of_them() -> None:
    watched, work = Watched(), Work()
    watched.meter.begin("stage 1", work, 50)
    work.rows = 60
    assert watched.look(1) == StepProgress("stage 1", 50, 50, RECORDS)


def test_a_place_that_does_not_answer_costs_one_look() -> None:
    watched, work = Watched(), Work()
    watched.meter.begin("stage 1", work, 50)
    work.rows, watched.tasks = None, (2, 4)
    assert watched.look(1).done == 2
    work.rows = 30
    assert watched.look(2).done == 30
    work.rows = None
    assert watched.look(3) == StepProgress("stage 1", 30, 50, RECORDS)


def test_other_steps_are_measured_in_tasks() -> None:
    watched = Watched()
    watched.meter.begin("stage 1", Work(), 50)
    watched.meter.begin("writing results")
    watched.tasks = (3, 4)
    assert watched.look(1) == StepProgress("writing results", 3, 4)


def test_a_step_is_reported_at_its_beginning_and_when_spark_has_come_further() -> None:
    watched = Watched()
    watched.meter.look()
    watched.meter.begin("stage 1 of 1")
    for now in ((0, 0), (1, 6), (1, 6), (5, 6)):
        watched.tasks = now
        watched.look(1)
    watched.meter.begin("writing results")
    assert watched.shown == [
        StepProgress("stage 1 of 1"),
        StepProgress("stage 1 of 1", 1, 6),
        StepProgress("stage 1 of 1", 5, 6),
        StepProgress("writing results"),
    ]


def test_a_thread_looks_until_the_end_and_a_jvm_that_has_ended_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOOK_EACH_S", 0.01)
    asked = threading.Event()

    def gone() -> tuple[int, int]:
        asked.set()
        raise ConnectionError("the JVM has ended")

    watched = Watched()
    watched.tasks = (2, 8)
    with watched.meter.watching():
        watched.meter.begin("writing state")
        eventually(lambda: watched.shown[-1] == StepProgress("writing state", 2, 8), "looked", PATIENCE_S)
    meter = Meter(gone, watched.shown.append)
    meter.begin("writing results")
    with meter.watching():
        assert asked.wait(PATIENCE_S)
        eventually(
            lambda: not any(each.name == "spark-progress" for each in threading.enumerate()), "ended", PATIENCE_S
        )
    assert watched.shown[-1] == StepProgress("writing results")
