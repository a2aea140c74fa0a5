"""The disk of an executor: a directory for each attempt of a task, with its stores in RocksDB.

State may then be larger than memory, which holds no more of it than RocksDB's caches and the task's memory budget.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

from penstock.common.errors import StateStoreError, StateStoreLockedError
from penstock.common.ids import TaskId
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.directory_lock import LOCK, DirectoryLock, remove_unlocked
from penstock.state.disk.task_stores import open_task_stores

LOCAL_DIRS = "SPARK_LOCAL_DIRS"
"""The variable in which Spark tells its Python workers the local directories of their executor, separated by commas."""
_FOLDER = "penstock-stores"
_OF_AN_EXECUTOR = "blockmgr-"
"""The beginning of the names of Spark's local directories: one for each executor, or for each run in one process."""


class TaskDisk:
    """The directory of one attempt of a task, made when it is first asked for, and removed by :meth:`close`.

    Its name holds the run, the task, Spark's number of the attempt, and a text of its own: a repeated task may come to
    the executor where the Python worker of the attempt before still has its stores open.
    """

    def __init__(self, run: str, task_id: TaskId) -> None:
        self._run = run
        self._task_id = task_id
        self._open: list[TaskStores] = []
        self._directory: Path | None = None
        self._lock: DirectoryLock | None = None

    @property
    def directory(self) -> Path:
        """The directory. Raises StateStoreError if it cannot be made."""
        if self._directory is None:
            folders = _folders()
            folder = folders[self._task_id.partition % len(folders)]
            try:
                self._directory, self._lock = self._new(folder)
            except OSError as error:
                raise StateStoreError(
                    f"task {self._task_id}: no directory for its stores can be made in {folder}: {error}. Let "
                    "spark.local.dir name directories with room that this user may write"
                ) from error
        return self._directory

    def open(self, name: str, builders: Iterable[AnyStoreBuilder]) -> TaskStores:
        """Open stores below the part ``name`` of the directory; :meth:`close` closes them. If none is persistent, all
        are in memory, and no directory is made."""
        chosen = list(builders)
        on_disk = any(builder.persistent for builder in chosen)
        stores = open_task_stores(self.directory / name if on_disk else None, chosen)
        self._open.append(stores)
        return stores

    def close(self) -> None:
        """Close the stores that are open, and remove the directory. Idempotent."""
        try:
            while self._open:
                self._open.pop().close()
        finally:
            lock, self._lock = self._lock, None
            if self._directory is not None and lock is not None:
                shutil.rmtree(self._directory, ignore_errors=True)
                lock.remove()

    def _new(self, folder: Path) -> tuple[Path, DirectoryLock]:
        while True:
            directory = folder / f"{self._run}-{self._task_id}-{_attempt()}-{uuid4().hex[:12]}"
            try:
                lock = DirectoryLock(directory)
            except StateStoreLockedError:
                continue  # taken by remove_left(), between the making of the lock's file and the locking
            directory.mkdir()
            return directory, lock


def new_run_id() -> str:
    """Returns a text that no other run has."""
    return uuid4().hex[:8]


def remove_left() -> None:
    """Remove the directories of workers that were killed: those that nobody has locked."""
    remove_unlocked(_lock_files())


def _lock_files() -> Iterator[Path]:
    for folder in _folders():
        yield from folder.glob(f"*{LOCK}")
        if folder.parent.name.startswith(_OF_AN_EXECUTOR):
            # Spark leaves the directories of an executor that was killed. The next one has others, at the same place.
            yield from folder.parent.parent.glob(f"{_OF_AN_EXECUTOR}*/{folder.name}/*{LOCK}")


def _folders() -> list[Path]:
    given = [part for part in os.environ.get(LOCAL_DIRS, "").split(",") if part]
    return [Path(part) / _FOLDER for part in given] or [Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"]


def _attempt() -> int:
    try:
        from pyspark import TaskContext
    except ImportError:  # outside Spark, as in tests
        return 0
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
