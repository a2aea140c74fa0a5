"""An audit point of a stream loop: its intake on hold, and images of the rows right after a commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.audit_messages import AuditAnswer, AuditStep, EndHold, HoldIntake, TakeImages
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.task_host.task_images import IMAGES, LEASE_S, open_image, renew
from penstock.common.ids import TaskId, TopicPartition
from penstock.tasks.program import TaskPrograms
from tests.actors.rig import LONG, STRING, Rig, count_of, count_topology, settle
from tests.waiting import PATIENCE_S, eventually

TASK = TaskId(0, 0)
IN = TopicPartition("in", 0)
HOLD = HoldIntake("p1", 1, frozenset({IN}), 30.0)


def images(*, epoch: int = 1, reach: int = 0, within_s: float = 10.0, task: TaskId = TASK) -> TakeImages:
    return TakeImages("p1", epoch, frozenset({task}), {IN: reach}, within_s)


def asked(loop: StreamLoop, step: AuditStep) -> AuditAnswer:
    done = loop.audit(step)
    settle(loop)
    return done.result(PATIENCE_S)


def rows_of(rig: Rig, answer: AuditAnswer, store: str = "counts") -> dict[bytes, bytes]:
    """Returns the rows in the image of the only task, as another process reads them."""
    assert answer.refused is None
    (image,) = answer.images
    builders = TaskPrograms(rig.spec.topology, rig.spec.config).of(image.task_id.subtopology).stores
    opened = open_image(Path(image.folder), builders)
    found = dict(opened.store(store).scan(None, None))
    opened.close()
    return found


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_view_has_the_rows_of_the_commit_whose_offsets_it_names(tmp_path: Path, guarantee: str) -> None:
    rig = Rig(tmp_path, processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    assert rig.committed() is None
    answer = asked(loop, images())
    rig.write("in", ("a", "x", 3), ("c", "x", 4))
    rig.commit(loop)
    assert rows_of(rig, answer).keys() == {b"a", b"b"}, "later commits change nothing in it"
    (image,) = answer.images
    assert image.offsets[IN].offset == 2
    assert image.layouts == {"counts": "timestamped key-value"}
    assert answer.node_id == "node"
    assert rig.committed() == 4


def test_on_hold_nothing_more_is_fetched_and_afterwards_everything(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert asked(loop, HOLD).refused is None
    rig.write("in", ("a", "x", 2), ("a", "x", 3))
    rig.commit(loop)
    assert count_of(loop, "a") == 1
    assert rig.committed() == 1, "commits continue"
    assert asked(loop, EndHold("p1")).refused is None
    settle(loop)
    assert count_of(loop, "a") == 3


def test_records_that_were_fetched_before_the_hold_are_part_of_the_image(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", *(("a", "x", 1) for _ in range(3_000)))
    while not count_of(loop, "a"):
        loop.step()
    loop.audit(HOLD)
    answer = asked(loop, images())
    (image,) = answer.images
    count = int.from_bytes(rows_of(rig, answer)[b"a"][8:], "big")
    assert image.offsets[IN].offset == count, "rows and offsets belong together"
    assert count_of(loop, "a") == count, "nothing came after it"


def test_a_view_waits_until_its_task_has_come_far_enough(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    done = loop.audit(images(reach=2))
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert not done.done()
    rig.write("in", ("a", "x", 2))
    settle(loop)
    assert done.result(PATIENCE_S).images[0].offsets[IN].offset == 2


def test_a_task_that_does_not_come_far_enough_in_time_is_named(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    done = loop.audit(images(reach=7, within_s=2.0))
    settle(loop)
    rig.clock.now_ms += 2_001
    settle(loop)
    assert done.result(PATIENCE_S).refused == "task 0_0 is at offset 0 of in-0, and 7 was to be reached"


def test_a_hold_ends_by_itself_when_the_auditor_is_gone(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    asked(loop, HOLD)
    rig.write("in", ("a", "x", 1))
    rig.clock.now_ms += 30_001
    settle(loop)
    assert count_of(loop, "a") == 1
    refused = asked(loop, EndHold("p1")).refused
    assert refused is not None
    assert "ended before" in refused


def test_a_hold_ends_with_the_assignment_and_the_point_is_void(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    asked(loop, HOLD)
    rig.assign(loop, 2, TASK)
    settle(loop)
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert count_of(loop, "a") == 1
    assert asked(loop, EndHold("p1")).refused is not None
    refused = asked(loop, images()).refused
    assert refused is not None
    assert "have moved" in refused
    assert "have moved" in (asked(loop, HOLD).refused or "")


def test_a_task_that_comes_back_after_a_hold_is_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    asked(loop, HOLD)
    rig.assign(loop, 2)
    settle(loop)
    rig.assign(loop, 3, TASK)
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert count_of(loop, "a") == 1


def test_one_audit_at_a_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    asked(loop, HOLD)
    other = asked(loop, HoldIntake("p2", 1, frozenset({IN}), 30.0)).refused
    assert other is not None
    assert "another audit" in other
    assert asked(loop, EndHold("p1")).refused is None


def test_a_view_of_a_task_that_is_not_here_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    assert asked(loop, images(task=TaskId(0, 7))).refused == "task 0_7 is not here"


def test_an_actor_that_ends_refuses_what_it_was_asked_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    done = loop.audit(images(reach=7, within_s=1000.0))
    settle(loop)
    rig.stop(loop)
    assert done.result(PATIENCE_S).refused == "the actor has ended"


def test_a_disk_that_takes_no_view_refuses_it_and_the_application_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    (tmp_path / "app" / IMAGES).write_text("in the way")
    refused = asked(loop, images()).refused
    assert refused is not None
    assert refused.startswith("no image of task 0_0: ")
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert rig.counts() == [("a", 1)]


def test_rows_of_stores_in_memory_are_part_of_the_image(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    in_memory: Any = ps.Materialized.as_(ps.Stores.in_memory_key_value_store("counts"))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(in_memory).to_stream().to(
        "out", ps.Produced.with_(STRING, LONG)
    )
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    answer = asked(loop, images())
    rig.write("in", ("a", "x", 3))
    rig.commit(loop)
    rows = rows_of(rig, answer)
    assert {key: int.from_bytes(row[8:], "big") for key, row in rows.items()} == {b"a": 1, b"b": 1}


def test_views_that_no_auditor_needs_any_more_are_removed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, count_topology())
    loop = rig.running()
    asked(loop, images())
    point = tmp_path / "app" / IMAGES / "p1"
    renew(point)
    rig.clock.now_ms += 61_000
    settle(loop)
    assert point.exists()
    old = point.stat().st_mtime - LEASE_S - 60
    os.utime(point / "needed", (old, old))
    rig.clock.now_ms += 61_000
    settle(loop)
    eventually(lambda: not point.exists(), "the thread that removes the images is done")
