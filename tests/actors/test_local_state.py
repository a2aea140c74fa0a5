"""The state of an application on a node: counted, and removed. On the fake broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.actors.task_host.state_cleanup import LocalState, local_state, remove_local_state
from penstock.common.errors import StateStoreLockedError
from tests.actors.rig import APPLICATION, Rig


def test_the_stores_of_every_task_are_counted_and_removed_with_the_directory(tmp_path: Path) -> None:
    rig, root = Rig(tmp_path), tmp_path / APPLICATION
    assert local_state(root) == LocalState(0, 0)
    rig.write("in", ("k", "x", 1))
    rig.stop(rig.running())
    found = local_state(root)
    assert found.directories == 1
    files = [file for file in root.glob("*_*/**/*") if file.is_file()]
    assert found.size == sum(file.stat().st_size for file in files) > 0
    assert remove_local_state(root) == found
    assert list(tmp_path.iterdir()) == []
    assert remove_local_state(root) == LocalState(0, 0)


def test_leftover_global_stores_and_locks_are_removed_too_and_foreign_files_remain(tmp_path: Path) -> None:
    root = tmp_path / "app"
    for path in ("0_1/rocksdb", "global/0/rocksdb", "global/1/rocksdb", "notes", "global/x"):
        (root / path).mkdir(parents=True)
    for lock in ("0_1.lock", "7_0.lock", "global/0.lock"):
        (root / lock).touch()
    assert remove_local_state(root).directories == 3
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["global", "global/x", "notes"]


def test_what_audits_have_left_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "app"
    for path in ("audit-images/20261127T1000-1/0_0/rocksdb", "audit-work-7/stage-1", "0_0/rocksdb"):
        (root / path).mkdir(parents=True)
    (root / "audit-work-7.lock").touch()
    assert remove_local_state(root).directories == 1
    assert list(tmp_path.iterdir()) == []


def test_stores_that_are_open_are_not_removed(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("k", "x", 1))
    loop = rig.running()
    with pytest.raises(StateStoreLockedError):
        remove_local_state(tmp_path / APPLICATION)
    rig.stop(loop)
    assert remove_local_state(tmp_path / APPLICATION).directories == 1
