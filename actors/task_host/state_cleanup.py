"""Counts, cleans up and removes the state of an application below ``state.dir`` on one node."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.actors.clock import Clock
from penstock.actors.steps import Steps
from penstock.actors.task_host.state_home import OWNER_FILE, PROCESS_ID_FILE, RUNS_IN_FILE
from penstock.actors.task_host.task_directory import GLOBAL, GLOBAL_STORES_DIRECTORY, TaskDirectory
from penstock.common.errors import StateStoreError, StateStoreLockedError
from penstock.common.log import logger
from penstock.state.disk.directory_lock import LOCK, DirectoryLock

_NAME = re.compile(r"\d+_\d+(-\d+)?")
_CLEANUP_AT_MOST_EVERY_S = 10.0


@dataclass(frozen=True)
class LocalState:
    """Number of the directories of tasks, and of global stores, that an application has on a node, and their bytes."""

    directories: int
    size: int


class StateCleaner:
    """Removes unused directories on this node, every ``state.cleanup.delay.ms``."""

    def __init__(self, root: Path, delay_ms: int, clock: Clock) -> None:
        self._root = root
        self._delay_ms = delay_ms
        self._clock = clock
        self._wait()

    def _wait(self) -> None:
        self._due_s = self._clock.monotonic_s() + max(self._delay_ms / 1000, _CLEANUP_AT_MOST_EVERY_S)

    @property
    def is_due(self) -> bool:
        """True if a clean-up is due."""
        return self._clock.monotonic_s() >= self._due_s

    def clean(self, mine: set[Path]) -> Steps[None]:
        """Remove unused directories, except ``mine``."""
        yield from remove_unused(self._root, mine, self._delay_ms)
        self._wait()


def remove_unused(root: Path, mine: set[Path], delay_ms: int) -> Steps[None]:
    """Remove the directories of tasks, and of global stores, that have not been used on this node for ``delay_ms``, and
    that no process has open."""
    log = logger(__name__)
    for path in (it for it in _paths(root) if it not in mine):
        directory = TaskDirectory(path)
        try:
            unused_ms = directory.unused_ms()
            if unused_ms < delay_ms:
                continue
            directory.remove()
        except StateStoreLockedError:
            continue  # another actor of this node runs the task
        except (OSError, StateStoreError) as error:
            log.warning("cannot remove unused task directory", directory=str(path), error=str(error))
        else:
            log.info("removed unused task directory", directory=str(path), unused_ms=int(unused_ms))
        yield 0.0


def local_state(root: Path) -> LocalState:
    """Returns the state of an application below its directory ``root`` on this node."""
    paths = list(_paths(root))
    return LocalState(len(paths), sum(map(_size, paths)))


def remove_local_state(root: Path) -> LocalState:
    """Remove all that :func:`local_state` counts, what audits have left, and ``root`` unless it holds something else.

    Raises StateStoreLockedError if a process has stores open; directories removed before that remain removed.
    """
    found = local_state(root)
    for path in list(_paths(root)):
        TaskDirectory(path).remove()
    for name in (OWNER_FILE, PROCESS_ID_FILE, RUNS_IN_FILE):
        for mark in root.glob(f"{name}*"):
            mark.unlink()
    # Images, and what audits that were killed have left: the next audit or an actor would remove it after a while.
    for left in root.glob("audit-*"):
        if left.is_dir():
            shutil.rmtree(left)
    for folder in (root / GLOBAL, root):
        for lock in folder.glob(f"*{LOCK}"):
            DirectoryLock(lock.with_name(lock.name.removesuffix(LOCK))).remove()
        with suppress(OSError):  # it does not exist, or has other files
            folder.rmdir()
    return found


def _size(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # RocksDB of another process removes files at any time
            found = file.stat()
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def _paths(root: Path) -> Iterator[Path]:
    """Yields the directories of all tasks, and of global stores."""
    for path in sorted(root.iterdir()) if root.exists() else ():
        if _NAME.fullmatch(path.name):
            yield path
        elif path.name == GLOBAL:
            yield from (each for each in sorted(path.iterdir()) if GLOBAL_STORES_DIRECTORY.fullmatch(each.name))
