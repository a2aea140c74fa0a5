"""A process that cannot lock the directory of a task changes nothing in it. Real RocksDB, and a second opener in this
process or another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.actors.task_host.state_cleanup import remove_local_state, remove_unused
from penstock.actors.task_host.task_directory import TaskDirectory, open_task_directory
from penstock.common.errors import StateStoreLockedError
from penstock.common.ids import TaskId
from penstock.state.contracts import TaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
TASK = TaskId(0, 0)
BUILDERS: list[KeyValueStoreBuilder[bytes, bytes]] = [KeyValueStoreBuilder("a")]
OPEN = """
import sys
from pathlib import Path
from penstock.actors.task_host.task_directory import TaskDirectory
from penstock.state.key_value.store import KeyValueStoreBuilder
stores = TaskDirectory(Path(sys.argv[1])).open([KeyValueStoreBuilder("a")])
print("open", flush=True)
sys.stdin.read()
"""
Contents = dict[str, tuple[bytes | None, int]]


def contents(path: Path) -> Contents:
    """Every file with its bytes and the time of its last change."""
    found = sorted(path.rglob("*"))
    return {str(it): (it.read_bytes() if it.is_file() else None, it.stat().st_mtime_ns) for it in found}


def opened(root: Path) -> tuple[TaskDirectory, TaskStores]:
    return open_task_directory(root, TASK, BUILDERS)


def open_standby(root: Path) -> None:
    directory, stores = open_task_directory(root, TASK, BUILDERS, standby=True)
    assert directory.path.name == "0_0-2"
    stores.close()


def open_again(root: Path) -> None:
    with pytest.raises(StateStoreLockedError):
        opened(root)


def open_elsewhere(root: Path) -> None:
    other = subprocess.run(
        [sys.executable, "-c", OPEN, str(root / "0_0")], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "StateStoreLockedError" in other.stderr


def clean_up(root: Path) -> None:
    assert list(remove_unused(root, set(), delay_ms=0)) == []


def reset(root: Path) -> None:
    with pytest.raises(StateStoreLockedError):
        remove_local_state(root)


ATTEMPTS = pytest.mark.parametrize("attempt", [open_standby, open_again, open_elsewhere, clean_up, reset])
Attempt = Callable[[Path], None]


@ATTEMPTS
def test_files_that_a_restore_writes_stay_its_own(attempt: Attempt, tmp_path: Path) -> None:
    root = tmp_path / "app"
    directory, stores = opened(root)
    load = stores.bulk_load("a")
    assert load is not None
    for number in range(20_000):
        load.put("a", b"%08d" % number, b"x" * 20)
    steps = load.write(20_000)
    next(steps)
    before = contents(directory.path)
    assert any("-restored" in name for name in before), "else nothing is at stake"
    attempt(root)
    assert contents(directory.path) == before
    for _ in steps:
        pass
    assert stores.store("a").get(b"00019999") == b"x" * 20
    assert stores.changelog_offset("a") == 20_000
    stores.close()


@ATTEMPTS
def test_stores_that_their_owner_has_found_damaged_are_left_to_it(attempt: Attempt, tmp_path: Path) -> None:
    root = tmp_path / "app"
    directory, stores = opened(root)
    (directory.path / "rocksdb" / "CORRUPT").touch()
    before = contents(directory.path)
    attempt(root)
    assert contents(directory.path) == before
    stores.close()
    again, stores = opened(root)
    assert not (again.path / "rocksdb" / "CORRUPT").exists(), "now nobody has it: it is deleted and restored"
    assert (again.path / "task").read_text() == "0_0\n"
    stores.close()


@ATTEMPTS
def test_nor_is_a_file_written_that_is_missing(attempt: Attempt, tmp_path: Path) -> None:
    root = tmp_path / "app"
    directory, stores = opened(root)
    (directory.path / "task").unlink()
    before = contents(directory.path)
    attempt(root)
    assert contents(directory.path) == before
    stores.close()


def test_a_killed_process_releases_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "app" / "0_0"
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(StateStoreLockedError):
            TaskDirectory(path).open(BUILDERS)
        owner.kill()
    TaskDirectory(path).open(BUILDERS).close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_a_process_has_forked_does_not_hold_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "app" / "0_0"
    stores = TaskDirectory(path).open(BUILDERS)
    (ends, end), (begun, begin) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.write(begin, b".")  # its hook after the fork has run
        os.read(ends, 1)  # until the parent has closed its end
        os._exit(0)
    os.read(begun, 1)
    stores.close()
    TaskDirectory(path).open(BUILDERS).close()
    os.close(end)
    os.waitpid(child, 0)
    for descriptor in (ends, begun, begin):
        os.close(descriptor)


def test_stores_that_cannot_be_opened_leave_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "app" / "0_0"
    stores = TaskDirectory(path).open(BUILDERS)
    stores.close()
    stores.close()
    (path / "task").write_text("7_7\n")
    for _ in range(2):
        with pytest.raises(Exception, match="are those of task 7_7"):
            TaskDirectory(path).open(BUILDERS)
    (path / "task").unlink()
    TaskDirectory(path).open(BUILDERS).close()
