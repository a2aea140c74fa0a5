"""Runs the cases of ``test_full_disk.py`` in a process of their own: ``python -m tests.actors.full_disk CASE
DIRECTORY``, where the directory is a file system of a few megabytes."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.common.ids import TaskId
from tests.actors.rig import Rig, count_of, settle

TASK = TaskId(0, 0)
NO_SPACE = "cannot be written: no space left on the device. Make room, then start again"


def fill(disk: Path) -> Path:
    """Leave no room; the file that takes it."""
    file = disk / "in the way"
    with file.open("wb", buffering=0) as full:
        try:
            while full.write(bytes(512)):
                pass
        except OSError:
            return file
    raise AssertionError("no such disk")


def key(number: int) -> str:
    """Bytes that no compression makes much shorter."""
    return hashlib.sha512(str(number).encode()).hexdigest()


def write(rig: Rig, many: int) -> None:
    rig.write("in", *((key(number), "x", 1) for number in range(many)))


def a_commit(disk: Path, guarantee: str) -> None:
    rig = Rig(disk, processing_guarantee=guarantee)
    loop = rig.running()
    write(rig, 1000)
    settle(loop)
    rig.commit(loop)
    in_the_way = fill(disk)
    write(rig, 1000)
    settle(loop)
    rig.commit(loop)
    assert NO_SPACE in (loop.finished.result(timeout=0) or "")
    assert loop.uncaught.disk_failed
    # Not even the directory of a new task could be opened: the error is the same.
    again = rig.loop()
    rig.assign(again, 2, TASK)
    write(rig, 1000)
    settle(again)
    rig.commit(again)
    message = again.finished.result(timeout=0) or ""
    assert again.uncaught.disk_failed
    assert "StateStoreDiskError" in message, message
    assert "o space left on" in message, message
    in_the_way.unlink()
    loop = rig.running(epoch=3)
    rig.commit(loop)
    assert {count_of(loop, key(number)) for number in range(1000)} == {3}, "each record counts, and counts once"
    assert rig.committed() == 3000
    rig.stop(loop)


def a_restore(disk: Path, guarantee: str) -> None:
    elsewhere = disk.parent / "elsewhere"
    rig = Rig(elsewhere, processing_guarantee=guarantee)
    loop = rig.running()
    write(rig, 20_000)
    settle(loop, at_most=20_000)
    rig.commit(loop)
    rig.stop(loop)
    here = rig.on_another_node(disk)
    loop = here.loop()
    here.assign(loop, 2, TASK)
    settle(loop, at_most=20_000)
    message = loop.finished.result(timeout=0) or ""
    assert NO_SPACE in message, message
    assert loop.uncaught.disk_failed
    # As it is, half restored, on a larger disk.
    shutil.copytree(disk / "app", disk.parent / "larger" / "app")
    larger = rig.on_another_node(disk.parent / "larger")
    loop = larger.running(epoch=3)
    settle(loop, at_most=20_000)
    assert count_of(loop, key(19_999)) == 1
    larger.stop(loop)


CASES: dict[str, Callable[[Path, str], None]] = {"commit": a_commit, "restore": a_restore}

if __name__ == "__main__":
    CASES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
