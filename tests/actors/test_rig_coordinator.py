"""The coordinator of the rig judges commits as the real one does, so that a loop that asks wrongly is seen here."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.actors.commit_messages import CommitRequest
from penstock.actors.commits.exactly_once import transactional_id
from penstock.common.ids import TaskId, TopicPartition
from tests.actors.exactly_once import EXACTLY
from tests.actors.rig import APPLICATION, Rig, settle

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
READ = TopicPartition("in", 0)


def request(epoch: int, number: int, *partitions: TopicPartition) -> CommitRequest:
    return CommitRequest("stream/1", epoch, dict.fromkeys(partitions, (1, "")), number)


@pytest.mark.parametrize(
    ("epoch", "partition", "reason"),
    [
        (2, READ, None),
        (1, READ, "epoch 1 is stale; the current epoch is 2"),
        (2, READ._replace(partition=1), "not read"),
    ],
)
def test_a_commit_under_a_stale_epoch_or_of_another_actors_partition_is_refused(
    tmp_path: Path, epoch: int, partition: TopicPartition, reason: str | None
) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running(TASK, OTHER)
    rig.assign(loop, 2, TASK)
    settle(loop)
    answer = rig.coordinator.commit(request(epoch, 100, partition)).result(timeout=0)
    assert answer.accepted is (reason is None)
    assert (reason or "") in answer.reason


def test_exactly_once_a_request_under_an_old_epoch_has_no_answer_until_a_later_one_supersedes_it(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, **EXACTLY)
    loop = rig.running(TASK)
    rig.assign(loop, 2, TASK)
    asked = rig.coordinator.commit(request(1, 100))
    settle(loop)
    assert not asked.done()
    assert rig.coordinator.commit(request(2, 101)).result(timeout=0).accepted
    assert "superseded" in asked.result(timeout=0).reason


def test_an_order_that_meets_a_producer_that_is_spent_is_carried_out(tmp_path: Path) -> None:
    """The commit in front of the new assignment fails, and the loop goes back under the epoch that the coordinator does
    not answer any more."""
    rig = Rig(tmp_path, partitions=2, **EXACTLY)
    loop = rig.running(TASK, OTHER)
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))  # its transaction cannot be committed any more
    done = rig.assign(loop, 2, TASK)
    for _ in range(5):
        settle(loop)
        rig.clock.now_ms += 1_000
    assert done.done(), loop.finished.done()
    assert done.exception() is None
