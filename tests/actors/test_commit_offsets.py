"""The changelog offset that a commit stores beside a store's rows: its own last record's. The broker is not asked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.ids import TaskId, TopicPartition
from penstock.testing.fake_broker import FakeRecord
from tests.actors.rig import CHANGELOG, Rig, count_of, settle, uncached

LOG = TopicPartition(CHANGELOG, 0)
FOREIGN = FakeRecord(b"foreign", (9).to_bytes(8, "big"), 1, None)


def stored(loop: StreamLoop, partition: int = 0) -> int | None:
    """Returns the offset that is stored beside the rows of store ``counts``."""
    return loop._tasks[TaskId(0, partition)].state_manager.changelog_offset("counts")


def test_a_commit_does_not_ask_the_broker_where_its_changelogs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()

    def never(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        raise AssertionError("asked")

    monkeypatch.setattr(loop._restoration._starts._admin, "end_offsets", never)
    monkeypatch.setattr(loop._consumer, "fetch_end_offsets", never)
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    rig.commit(loop)
    assert (rig.committed(), stored(loop)) == (2, 2)


def test_records_that_others_wrote_behind_the_last_one_are_not_skipped_by_the_next_restore(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.coordinator.hold()
    rig.commit(loop)
    rig.broker.append(CHANGELOG, FOREIGN, 0)
    rig.coordinator.release()
    settle(loop)
    assert (rig.committed(), stored(loop)) == (1, 1)
    rig.stop(loop)
    assert count_of(rig.running(), "foreign") == 9


def test_a_changelog_that_was_not_written_keeps_the_offset_that_was_restored(tmp_path: Path) -> None:
    rig = Rig(tmp_path, uncached())
    rig.broker.append(CHANGELOG, FOREIGN, 0)
    loop = rig.running()
    rig.write("in", ("a", None, 1))  # a count drops it: there is something to commit, and nothing to log
    settle(loop)
    rig.broker.append(CHANGELOG, FOREIGN, 0)
    rig.commit(loop)
    assert (rig.committed(), stored(loop)) == (1, 1)


def test_changelog_offsets_of_an_uncached_store_are_known_after_another_tasks_commit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, uncached(), partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2), partition=0)
    rig.write("in", ("a", "x", 1), partition=1)
    settle(loop)
    assigned = rig.assign(loop, 2, TaskId(0, 0))  # task 0_1 is committed alone
    settle(loop)
    assert assigned.done()
    assert (rig.committed(0), rig.committed(1)) == (None, 1)
    rig.commit(loop)
    assert (rig.committed(0), stored(loop)) == (2, 2)
