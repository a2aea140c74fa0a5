"""The live view of an application."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from penstock.actors.status import StandbyStatus
from penstock.cli.live_view import LiveView
from penstock.cli.status_lines import StatusLines
from penstock.cluster.read_side import (
    ActorStatus,
    ApplicationState,
    ApplicationStatus,
    StuckTask,
    TaskState,
    TaskStatus,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.partitioners import Partitioner


def snapshot(processed: int, state: TaskState = TaskState.RUNNING) -> ApplicationStatus:
    task = TaskStatus(
        TaskId(0, 0),
        state,
        processed,
        dropped_records=1,
        lost_records=42,
        restore_remaining=77,
        lags={TopicPartition("lines", 0): 1234},
    )
    return ApplicationStatus(
        "word-count",
        ApplicationState.RUNNING,
        1,
        (ActorStatus("actor-1", "node", 1, 1, (task,)),),
        {TaskId(0, 0): "actor-1", TaskId(0, 1): "actor-2"},
    )


def text(view: LiveView, status: ApplicationStatus, now_s: float, note: str = "") -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as frame:
        console.print(view.render(status, now_s, note))
    return frame.get()


def row(frame: str, task: str) -> list[str]:
    return next(line.split() for line in frame.splitlines() if line.startswith(task))


def test_it_shows_each_task_with_its_rate_since_the_last_snapshots() -> None:
    view = LiveView()
    text(view, snapshot(0), 10.0)
    frame = text(view, snapshot(5000), 12.0)
    assert row(frame, "0_0") == ["0_0", "actor-1", "running", "5,000", "2,500", "1,234", "1", "42"]
    assert row(frame, "all") == ["all", "5,000", "2,500", "1,234", "1", "42"]


def test_a_single_frame_has_no_column_for_rates() -> None:
    frame = text(LiveView(rates=False), replace(snapshot(5), unhosted={TaskId(0, 2): "no actor"}), 10.0)
    assert "records/s" not in frame
    assert row(frame, "0_0") == ["0_0", "actor-1", "running", "5", "1,234", "1", "42"]
    assert row(frame, "0_2") == ["0_2", "waiting", "?"]
    assert row(frame, "all") == ["all", "5", "1,234", "+", "?", "1", "42"]


def test_it_shows_that_the_lag_of_a_silent_actor_is_not_known() -> None:
    frame = text(LiveView(), replace(snapshot(5), silent=frozenset({"actor-1"})), 10.0)
    assert row(frame, "0_0") == ["0_0", "actor-1", "silent", "5", "?", "1", "42"]
    assert row(frame, "all") == ["all", "5", "0", "+", "?", "1", "42"]


def test_it_shows_an_actor_without_a_lease() -> None:
    status = snapshot(5)
    expired = tuple(replace(actor, without_lease=True) for actor in status.actors)
    reported = "actor-1 has stopped processing: its lease has expired and the coordinator does not answer"
    assert reported in text(LiveView(), replace(status, actors=expired), 10.0)
    assert reported not in text(LiveView(), status, 10.0)


def test_the_view_shows_the_reason_that_the_application_waits() -> None:
    frame = text(LiveView(), replace(snapshot(0), waiting="no CPU is free: 'other' has 2"), 10.0)
    assert "no CPU is free: 'other' has 2" in frame


def test_it_shows_that_checkpoints_are_not_stored() -> None:
    (actor,) = snapshot(0).actors
    failed = [
        replace(actor.tasks[0], task_id=TaskId(0, number), checkpoint_error="the bucket is gone") for number in (0, 1)
    ]
    status = replace(snapshot(0), actors=(replace(actor, tasks=tuple(failed)),))
    frame = text(LiveView(), status, 0.0)
    assert "no checkpoint is stored of task 0_0 (and of 1 other tasks), retrying: the bucket is gone" in frame
    assert "no checkpoint" not in text(LiveView(), snapshot(0), 0.0)


def test_it_names_topics_that_another_partitioner_wrote_and_joins_that_lose_results() -> None:
    status = snapshot(0)
    (actor, *others) = status.actors
    tasks = [replace(task, partitioners={"in": Partitioner.CRC32}, parted=(("in", "other"),)) for task in actor.tasks]
    frame = text(LiveView(), replace(status, actors=(replace(actor, tasks=tuple(tasks)), *others)), 10.0)
    assert "results are missing: different partitioners wrote in, other, which are joined or merged" in frame
    assert "topic in: keys as librdkafka's default partitioner (CRC32) places them, not Kafka's" in frame


def test_it_names_the_tasks_that_are_stuck() -> None:
    stuck = StuckTask(TaskId(0, 0), "actor-1", "lines", 0, 17, 5, 301.6)
    frame = text(LiveView(), replace(snapshot(0), stuck=(stuck,)), 10.0)
    assert "task 0_0 on actor-1 has processed nothing for 302 s" in " ".join(frame.split())


def test_a_rate_forgets_what_is_older_than_its_window() -> None:
    view = LiveView()
    for second in range(10):
        text(view, snapshot(1000 * second), float(second))
    for second in range(10, 20):
        frame = text(view, snapshot(9000), float(second))
    assert row(frame, "0_0")[4] == "0"


def test_a_task_that_starts_again_elsewhere_has_the_rate_of_its_new_life() -> None:
    view = LiveView()
    text(view, snapshot(5000), 1.0)
    assert row(text(view, snapshot(10), 2.0), "0_0")[4] == "10"


def test_a_task_without_a_report_is_waiting_and_a_restoring_one_shows_its_remaining_records() -> None:
    frame = text(LiveView(), snapshot(0, TaskState.RESTORING), 1.0)
    assert row(frame, "0_1") == ["0_1", "actor-2", "waiting"]
    assert "restoring, 77 to go" in frame


def test_it_shows_which_actors_keep_standbys_of_a_task_and_their_lag() -> None:
    status = snapshot(0)
    (actor,) = status.actors
    other = replace(actor, actor_id="actor-2", tasks=(), standbys=(StandbyStatus(TaskId(0, 0), 12),))
    frame = text(LiveView(), replace(status, actors=(actor, other)), 1.0)
    assert "actor-2 (12 behind)" in frame
    assert "standbys" not in text(LiveView(), status, 1.0)


@pytest.mark.parametrize(("rate", "left"), [(10.0, "10/s, 7.7 s"), (0.1, "0/s, 13 min"), (0.0, "77 to go ")])
def test_a_restoring_task_shows_its_rate_and_its_remaining_time(rate: float, left: str) -> None:
    status = snapshot(0, TaskState.RESTORING)
    (actor,) = status.actors
    task = replace(actor.tasks[0], restore_rate=rate)
    frame = text(LiveView(), replace(status, actors=(replace(actor, tasks=(task,)),)), 10.0)
    assert left in frame


def test_errors_and_the_note_are_shown() -> None:
    failed = replace(snapshot(1), state=ApplicationState.ERROR, error="topic lines is gone")
    frame = text(LiveView(), failed, 1.0, note="12 records in")
    assert "ERROR" in frame
    assert "topic lines is gone" in frame
    assert "12 records in" in frame


def test_one_snapshot_alone_shows_no_rate() -> None:
    frame = text(LiveView(), snapshot(5000), 10.0)
    assert row(frame, "0_0") == ["0_0", "actor-1", "running", "5,000", "1,234", "1", "42"]
    assert row(frame, "all") == ["all", "5,000", "1,234", "1", "42"]


def test_a_task_that_no_actor_has_is_shown_as_waiting_with_the_reason_and_an_unknown_lag() -> None:
    status = replace(snapshot(5), unhosted={TaskId(1, 0): "stream/3 is starting", TaskId(1, 1): "stream/3 is starting"})
    frame = text(LiveView(), status, 10.0)
    assert row(frame, "1_0") == ["1_0", "waiting", "?"]
    assert "2 tasks wait (1_0, 1_1): stream/3 is starting" in frame
    assert "1,234 + ?" in frame


def test_the_line_of_a_run_counts_the_tasks_that_no_actor_has() -> None:
    status = replace(snapshot(5), unhosted={TaskId(1, 0): "stream/3 is starting"})
    line = StatusLines().line(status, 10.0)
    assert line is not None
    assert "1/3 tasks run" in line
    assert "lag 1,234 + ?" in line
    assert line.endswith("\n1 task waits (1_0): stream/3 is starting")


def test_tasks_that_the_group_does_not_assign_any_more_are_not_shown_as_running() -> None:
    line = StatusLines().line(replace(snapshot(5), placement={}), 10.0)
    assert line is not None
    assert "0/0 tasks run" in line


def test_the_count_of_all_does_not_sink_when_a_task_begins_again() -> None:
    view = LiveView()
    text(view, snapshot(5000), 10.0)
    frame = text(view, snapshot(100), 12.0)
    assert row(frame, "0_0")[3:5] == ["5,100", "50"]
    assert row(frame, "all")[1] == "5,100"
    moves = replace(snapshot(0), actors=())
    assert row(text(view, moves, 13.0), "all")[1] == "5,100", "a task that nobody reports keeps its count"


def test_lines_come_when_something_has_changed_and_else_once_a_minute() -> None:
    lines = StatusLines()
    reported = [now_s for now_s in range(10, 200) if lines.line(snapshot(5), float(now_s))]
    assert reported == [10, 70, 130, 190]
    counts = iter(range(100))
    reported = [now_s for now_s in range(191, 211) if lines.line(snapshot(5 + next(counts)), float(now_s))]
    assert reported == [195, 200, 205, 210]
    ends = replace(snapshot(24), state=ApplicationState.PENDING_SHUTDOWN)
    assert lines.line(ends, 210.5), "a change of the state is told at once"


def test_the_line_of_a_run_does_not_sink_either_and_shows_the_rate() -> None:
    lines = StatusLines()
    lines.line(snapshot(5000), 10.0)
    line = lines.line(snapshot(100), 20.0)
    assert line is not None
    assert "processed 5,100  10 records/s" in line
