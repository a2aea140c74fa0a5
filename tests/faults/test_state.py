"""Row 27: state on disk that is another task's, or that the changelog knows nothing of. On a broker in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.common.ids import TaskId
from penstock.common.topics import NewTopic
from tests.actors.rig import APPLICATION, CHANGELOG, Rig, key_query, query, settle

pytestmark = pytest.mark.cheap


def counts(rig: Rig, partition: int) -> dict[str, int | None]:
    """Returns the counts that the task of a partition has for the keys of all partitions."""
    task = TaskId(0, partition)
    loop = rig.running(task)
    found = query(loop, *(key_query(key, partition=partition) for key in ("of 0", "of 1")))
    rig.stop(loop)
    return {
        key: answer.rows[0][1] if answer.rows else None for key, answer in zip(("of 0", "of 1"), found, strict=True)
    }


def test_row_27_the_stores_of_another_task_are_not_taken_for_its_own(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    for partition in (0, 1):
        for _ in range(3 + partition):
            rig.write("in", (f"of {partition}", "x", 1), partition=partition)
    rig.stop(rig.running())
    mine = tmp_path / APPLICATION / "0_0"
    shutil.rmtree(mine)
    shutil.copytree(mine.with_name("0_1"), mine)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    assert f"the stores in {mine} are those of task 0_1, not of 0_0" in (loop.finished.result() or "")
    assert counts(rig, 1) == {"of 0": None, "of 1": 4}
    shutil.rmtree(mine)
    assert counts(rig, 0) == {"of 0": 3, "of 1": None}


def test_row_27_a_note_that_was_lost_with_the_power_names_no_other_task(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("of 0", "x", 1))
    rig.stop(rig.running())
    note = tmp_path / APPLICATION / "0_0" / "task"
    note.write_text("")
    assert counts(rig, 0) == {"of 0": 1, "of 1": None}
    assert note.read_text() == "0_0\n"


def test_row_27_a_store_ahead_of_a_recreated_changelog_is_restored_from_the_changelog(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for _ in range(5):
        rig.write("in", ("of 0", "x", 1))
        loop = rig.running()
        rig.commit(loop)
        rig.stop(loop)
    admin = rig.clients.admin()
    admin.delete_topics([CHANGELOG])
    admin.create_topics([NewTopic(CHANGELOG, 1)])
    assert counts(rig, 0) == {"of 0": None, "of 1": None}
