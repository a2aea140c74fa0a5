"""The directory of one task's stores below ``state.dir``: opens it, knows its age, removes it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import node as host_name

from penstock.actors.failure import is_of_the_disk
from penstock.actors.task_host.state_home import claim
from penstock.common.errors import (
    StateStoreCorruptError,
    StateStoreDiskError,
    StateStoreError,
    StateStoreLockedError,
)
from penstock.common.files import write_whole
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.state.builders import AnyStoreBuilder, is_restorable
from penstock.state.contracts import TaskStores
from penstock.state.disk.directory_lock import DirectoryLock
from penstock.state.disk.task_stores import destroy_task_stores, move_task_stores, open_task_stores

GLOBAL = "global"
"""A directory below the application's. It has a numbered directory of all global stores for each actor of the node."""
GLOBAL_STORES_DIRECTORY = re.compile(r"\d+")
"""The names of these numbered directories."""
_STANDBY = "standby"
_WHOSE = "task"
"""The file that names the task: a directory copied to the name of another task must not be taken for its state."""
FETCHED, CHECKPOINT = "fetched-", "checkpoint-"
"""The beginnings of the names of folders in the directory: a checkpoint that is being downloaded, and one that is being
uploaded. They are of use only to the process that has the stores open."""
_MOST_DIRECTORIES = 100
_NOTE_EVERY_MS = 60_000


class TaskDirectory:
    """The files of one task on this node. A file in it has the time of its last commit, which, unlike the time of a
    file, does not change when the directory is copied.

    A process changes nothing in it before it has the lock, a file next to it. It holds the lock as long as the stores
    are open, or are being removed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._note = path / "last-commit"
        # The global stores of all actors are the same.
        self._owner_name = GLOBAL if GLOBAL_STORES_DIRECTORY.fullmatch(path.name) else path.name.partition("-")[0]
        self._current_ms: int | None = None
        self._noted_ms = 0
        self.is_new = False
        """True if there were no stores when they were opened, and they have taken no commit since."""

    def open(self, builders: Sequence[AnyStoreBuilder]) -> TaskStores:
        """Open the stores; corrupt ones are deleted when all of them have changelogs.

        Raises StateStoreLockedError, StateStoreCorruptError when one without a changelog is among them, and
        StateStoreError when the directory is another application's, of a newer version, or cannot be written.
        """
        if not any(builder.persistent for builder in builders):
            return open_task_stores(self.path, builders)
        with self._written():
            lock = DirectoryLock(self.path)
            try:
                claim(
                    self.path.parent.parent if GLOBAL_STORES_DIRECTORY.fullmatch(self.path.name) else self.path.parent
                )
                self._remove_leftovers()
                self._current_ms = self._last_commit_ms()
                self.is_new = self._current_ms is None
                self._claim()
                return self._open(builders, lock)
            except BaseException:
                lock.release()
                raise

    def _open(self, builders: Sequence[AnyStoreBuilder], lock: DirectoryLock) -> TaskStores:
        try:
            return open_task_stores(self.path, builders, lock.release)
        except StateStoreCorruptError as error:
            lost = [builder.name for builder in builders if builder.persistent and not is_restorable(builder)]
            if lost:
                raise StateStoreCorruptError(
                    f"{error}. Nothing was deleted, because {', '.join(lost)} cannot be restored from a changelog: "
                    f"restore {self.path} from a backup, or delete it and begin with empty stores"
                ) from error
            log = logger(__name__)
            what = "corrupt stores are deleted and restored from their changelogs"
            log.warning(what, task=self.path.name, error=str(error))
            shutil.rmtree(self.path)
            self._claim()
            return open_task_stores(self.path, builders, lock.release)

    def _remove_leftovers(self) -> None:
        for name in (FETCHED, CHECKPOINT):
            for folder in self.path.glob(f"{name}*"):
                shutil.rmtree(folder, ignore_errors=True)

    def take_in(self, folder: Path, committed_ms: int) -> None:
        """Replace the stores, which must be closed, by those in ``folder``, whose rows were committed at
        ``committed_ms``. A crash leaves the stores of the folder, or none. Raises StateStoreLockedError if another
        process has opened the directory, and StateStoreError if it cannot be written."""
        lock = DirectoryLock(self.path)
        try:
            with self._written():
                # In this order: rows without a time would be taken for rows of now.
                destroy_task_stores(self.path)
                write_whole(self._note, f"{committed_ms}\n")
                move_task_stores(folder, self.path)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.release()

    @property
    def is_standby(self) -> bool:
        """True if the task that has the stores open, or had them last, only follows their changelogs."""
        return (self.path / _STANDBY).exists()

    def note_role(self, *, standby: bool) -> None:
        """Note if the stores are open for a standby or for an active task."""
        note = self.path / _STANDBY
        if standby:
            note.touch()
        else:
            note.unlink(missing_ok=True)

    def age_ms(self, now_ms: int) -> int | None:
        """Returns the time since the stores that were opened last lacked nothing of their changelogs; None when they
        are new."""
        return None if self._current_ms is None else now_ms - self._current_ms

    def note_commit(self, now_ms: int) -> None:
        """The stores have taken a commit, or there is none to take. Written once a minute: a time that is a little too
        early does no harm."""
        self._current_ms = now_ms
        if now_ms - self._noted_ms < _NOTE_EVERY_MS:
            return
        self._noted_ms = now_ms
        if self.path.exists():
            with self._written():
                write_whole(self._note, f"{now_ms}\n")

    def note_close(self) -> None:
        """Note that the task leaves: ``state.cleanup.delay.ms`` counts from now."""
        if self._note.exists():
            os.utime(self._note)

    def unused_ms(self) -> float:
        """Returns the ms since any of its files was written, by their times."""
        return time.time() * 1000 - (self._newest_ms() or 0)

    def remove(self) -> None:
        """Delete the directory. Raises StateStoreLockedError if a process has its stores open."""
        lock = DirectoryLock(self.path)
        try:
            destroy_task_stores(self.path)
            shutil.rmtree(self.path)
        finally:
            lock.release()

    def _claim(self) -> None:
        """Note to which task the stores belong, unless that is noted already."""
        file = self.path / _WHOSE
        owner = file.read_text().strip() if file.exists() else ""
        if not owner:  # the file may also be empty, after a loss of power
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(file, f"{self._owner_name}\n")
            return
        if owner != self._owner_name:
            raise StateStoreError(
                f"the stores in {self.path} are those of task {owner}, not of {self._owner_name}: move the directory "
                "back, or delete it, so that they are restored from their changelogs. Nothing was deleted"
            )

    def _last_commit_ms(self) -> int | None:
        try:
            return int(self._note.read_text())
        except (FileNotFoundError, ValueError):
            return self._newest_ms()  # left by a version that wrote no such file, or copied without it

    def _newest_ms(self) -> int | None:
        times = []
        for file in self.path.rglob("*"):
            with suppress(FileNotFoundError):  # RocksDB of another process removes files at any time
                times.append(file.stat().st_mtime)
        return int(max(times) * 1000) if times else None

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = StateStoreDiskError if is_of_the_disk(error) else StateStoreError
            raise kind(
                f"the state directory {self.path} cannot be written, and nothing was deleted: {error}. Check that the "
                f"disk of {host_name()} has space and that this user owns the directory, then start again"
            ) from error


def open_task_directory(
    root: Path, task: TaskId, builders: Sequence[AnyStoreBuilder], *, standby: bool = False
) -> tuple[TaskDirectory, TaskStores]:
    """Open the stores of ``task`` below ``root``, the directory of the application on this node.

    If several actors of a node have the task (one active, the others as standbys), each has a directory of its own.
    Returns the most advanced directory that no process has open, else a new one. Stores without a changelog exist only
    where the active task was: an active task continues there, and no standby uses that directory. Raises as
    :meth:`TaskDirectory.open`, and StateStoreLockedError while an active task that must close still has its directory
    open.
    """
    if not any(builder.persistent for builder in builders):
        directory = TaskDirectory(root / str(task))
        return directory, directory.open(builders)
    irreplaceable = any(builder.persistent and not is_restorable(builder) for builder in builders)
    opened: list[tuple[TaskDirectory, TaskStores]] = []
    names = [f"{task}"] + [f"{task}-{number}" for number in range(2, _MOST_DIRECTORIES)]
    for directory in (TaskDirectory(root / name) for name in names):
        there = directory.path.exists()
        if (opened and not there) or (irreplaceable and standby and there and not directory.is_standby):
            continue
        try:
            opened.append((directory, directory.open(builders)))
        except StateStoreLockedError:
            if standby or directory.is_standby:
                continue
            for _, stores in opened:
                stores.close()
            raise
    if not opened:
        raise StateStoreLockedError(f"all directories of task {task} below {root} are open elsewhere")
    persistent = [builder.name for builder in builders if builder.persistent]

    def worth(found: tuple[TaskDirectory, TaskStores]) -> tuple[bool, int]:
        directory, stores = found
        has_all = irreplaceable and not directory.is_standby
        return has_all, sum(stores.changelog_offset(name) or 0 for name in persistent)

    best = max(opened, key=worth)
    for directory, stores in opened:
        if directory is not best[0]:
            stores.close()
    best[0].note_role(standby=standby)
    return best
