"""A stream loop that is paused: no records, no punctuation; commits, restores, assignments and queries continue."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId
from tests.actors.rig import STRING, Rig, count_of, settle, states


def pause(loop: StreamLoop, paused: bool = True) -> None:
    done = loop.pause(paused)
    loop.step()
    assert done.done()
    assert done.exception() is None


def says_paused(loop: StreamLoop) -> bool:
    asked = loop.status()
    loop.step()
    return asked.result().paused


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_no_record_is_processed_until_it_is_resumed_and_then_each_once(tmp_path: Path, guarantee: str) -> None:
    rig = Rig(tmp_path, processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    pause(loop)
    assert says_paused(loop)
    rig.write("in", ("a", "x", 2), ("b", "x", 3))
    rig.commit(loop)
    rig.commit(loop)
    assert count_of(loop, "a") == 1, "a query is answered, by what was processed before"
    assert rig.committed() == 1, "what was done before is committed"
    assert rig.counts() == [("a", 1)]
    pause(loop, paused=False)
    assert not says_paused(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 1), ("a", 2), ("b", 1)]
    assert rig.committed() == 3


def test_records_that_were_fetched_before_wait_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", *(("a", "x", 1) for _ in range(5_000)))
    while not count_of(loop, "a"):
        loop.step()
    pause(loop)
    before = count_of(loop, "a")
    assert before is not None
    assert before < 5_000, "some wait in the task, or the rig is too fast to show it"
    settle(loop)
    assert count_of(loop, "a") == before
    pause(loop, paused=False)
    settle(loop)
    assert count_of(loop, "a") == 5_000


def test_neither_clock_punctuates_and_afterwards_a_missed_time_is_made_up_for_once(tmp_path: Path) -> None:
    called: list[int] = []

    class Ticking(ps.Processor[Any, Any, Any, Any]):
        def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
            context.schedule(timedelta(seconds=1), ps.PunctuationType.WALL_CLOCK_TIME, called.append)

        def process(self, record: ps.Record[Any, Any]) -> None:
            pass

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Ticking)
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.commit(loop)
    assert len(called) == 1
    pause(loop)
    for _ in range(5):
        rig.commit(loop)
    assert len(called) == 1
    pause(loop, paused=False)
    settle(loop)
    assert len(called) == 2


def test_a_task_that_comes_while_it_is_paused_is_restored_and_answers_and_processes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "here")
    first = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    rig.commit(first)
    rig.stop(first)
    rig.write("in", ("a", "x", 3))
    loop = rig.on_another_node(tmp_path / "there").loop()
    pause(loop)
    rig.assign(loop, 2, TaskId(0, 0))
    settle(loop)
    assert states(loop) == {TaskId(0, 0): TaskState.RUNNING}
    assert count_of(loop, "a") == 2
    pause(loop, paused=False)
    settle(loop)
    assert count_of(loop, "a") == 3


def test_a_paused_loop_gives_tasks_away_and_stops_with_a_commit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("b", "x", 1), partition=1)
    settle(loop)
    pause(loop)
    done = rig.assign(loop, 2, TaskId(0, 1))
    settle(loop)
    assert done.done()
    assert rig.committed(0) == 1
    rig.stop(loop)
    assert rig.committed(1) == 1


def test_the_lag_of_a_paused_task_is_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    pause(loop)
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    asked = loop.status()
    loop.step()
    (task,) = asked.result().tasks
    assert task.lag == 2
