"""Each store on disk, active or standby, is what its changelog makes, or the difference is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.ids import TaskId, TopicPartition
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskPrograms
from penstock.testing.chaos.disks import OnDisk, stores_are_their_changelogs, stores_equal
from penstock.topology.physical.topic_plan import plan_topics
from tests.actors.rig import Rig, count_topology, settle

MEANT = {b"a": b"1", b"b": b"2"}
WHOLE, STANDBY = OnDisk("0_1", MEANT, 7), OnDisk("0_1-2", dict(MEANT), 8)


def reported(*found: OnDisk, wanted: int = 2, damaged: bool = False) -> list[str]:
    return stores_equal("counts of task 0_1", MEANT, 7, found, wanted, damaged)


def test_a_task_and_its_standby_that_have_all_are_right() -> None:
    assert reported(WHOLE, STANDBY) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({b"a": b"1"}, "b'b' is None instead of b'2'"),
        ({**MEANT, b"a": b"0"}, "b'a' is b'0' instead of b'1'"),
        ({**MEANT, b"c": b"3"}, "b'c' is b'3' instead of None"),
    ],
)
def test_a_row_that_is_missing_old_or_left_over_in_any_of_them_is_reported(
    rows: dict[bytes, bytes], message: str
) -> None:
    (sentence,) = reported(WHOLE, OnDisk("0_1-2", rows, 7))
    assert sentence == f"a store is not what its changelog makes: counts of task 0_1 in 0_1-2: {message}"


def test_a_standby_that_lags_at_rest_or_is_not_there_is_reported() -> None:
    (sentence,) = reported(WHOLE, OnDisk("0_1-2", {b"a": b"1"}, 6))
    assert sentence.endswith("1 of 2 have come to offset 7 (0_1 at 7, 0_1-2 at 6)")
    (sentence,) = reported()
    assert sentence.endswith("0 of 2 have come to offset 7 (none)")


def test_a_store_left_behind_by_a_lost_actor_is_no_mistake() -> None:
    assert reported(WHOLE, STANDBY, OnDisk("0_1-3", {b"a": b"0"}, 3)) == []


def test_a_corrupt_store_is_reported_unless_files_were_damaged() -> None:
    corrupt = OnDisk("0_1-2", None, None)
    assert reported(WHOLE, corrupt, damaged=True) == []
    assert (
        "a store is not what its changelog makes: counts of task 0_1 in 0_1-2 is corrupt" in reported(WHOLE, corrupt)[0]
    )


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_real_store_is_read_and_compared_row_by_row(tmp_path: Path, guarantee: str) -> None:
    rig = Rig(tmp_path, count_topology(), processing_guarantee=guarantee)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2), ("a", "x", 3))
    settle(loop)
    rig.commit(loop)
    rig.stop(loop)
    config = rig.spec.config
    plan = plan_topics(rig.spec.topology, config, rig.clients.admin().topics()).tasks
    programs, home = TaskPrograms(rig.spec.topology, config), tmp_path / config.application_id

    def wrong() -> list[str]:
        return stores_are_their_changelogs(home, programs, plan, rig.clients, 1, False)

    assert wrong() == []
    task = TaskId(0, 0)
    program = programs.of(0, [TopicPartition("in", 0)])
    stores = open_task_stores(home / str(task), program.stores.values())
    batch = stores.new_batch()
    batch.put("counts", b"a", stores.store("counts").get(b"b") or b"")
    stores.write(batch, {})
    stores.close()
    (sentence,) = wrong()
    assert "counts of task 0_0 in 0_0: b'a' is" in sentence
