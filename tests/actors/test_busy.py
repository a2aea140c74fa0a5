"""The time that a stream loop worked, and on which task. The number of actors is decided by it."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.actors.loop.mailbox import Mailbox
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import ActorStatus
from penstock.common.ids import TaskId
from tests.actors.rig import STRING, Rig, settle


def status(loop: StreamLoop) -> ActorStatus:
    asked = loop.status()
    loop.step()
    return asked.result(0)


def test_a_mailbox_reports_how_long_it_has_waited_while_there_was_nothing_to_do() -> None:
    mailbox = Mailbox(RuntimeError)
    mailbox.serve(0.02)
    assert mailbox.idle_s == 0
    mailbox.serve(0.02, idle=True)
    assert 0.02 <= mailbox.idle_s < 10
    before = mailbox.idle_s
    mailbox.wake()
    mailbox.serve(60.0, idle=True)
    assert mailbox.idle_s < before + 30, "what it did not wait counts"


def test_each_task_reports_the_seconds_that_its_records_took(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()

    def slow(value: str) -> str:
        rig.clock.now_ms += 4
        return value

    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values(slow).to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), partitions=2)
    rig.write("in", *[("a", "x", 1)] * 30, partition=0)
    rig.write("in", *[("a", "x", 1)] * 10, partition=1)
    loop = rig.running()
    found = status(loop)
    assert {task.task_id: round(task.busy_s, 6) for task in found.tasks} == {TaskId(0, 0): 0.12, TaskId(0, 1): 0.04}
    assert round(found.running_s, 6) == 0.16
    settle(loop)
    assert [task.busy_s for task in status(loop).tasks] == [task.busy_s for task in found.tasks]


def test_a_loop_without_records_is_idle(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    before = status(loop).idle_s
    wait_s = 0.0
    for _ in range(20):
        wait_s = loop.step(wait_s)
    assert status(loop).idle_s > before
