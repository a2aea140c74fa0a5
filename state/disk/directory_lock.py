"""The lock of a directory with stores: held from before they are opened until they are closed.

RocksDB has its own lock, but takes it too late: by then it has begun a new log file in the directory.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakSet, finalize

from penstock.common.errors import StateStoreLockedError

LOCK = ".lock"
"""The end of the file's name. The file is next to the directory, so that it remains when the directory is removed."""

OPEN_ELSEWHERE = (
    "another process, or another task of this one, has the directory open. Two applications may not share a state.dir. "
    "A process that is ending releases it in a moment"
)


class DirectoryLock:
    """The lock of ``directory``, taken at once. Raises StateStoreLockedError if it is taken, by this process or another
    one, and OSError: PermissionError names the owner of the file, if that is another user. The operating system
    releases the lock when the process ends, however that happens."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._file = directory.with_name(directory.name + LOCK)
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError as error:
            raise _with_owner(error, self._file) from error
        self._close = finalize(self, os.close, descriptor)
        if not _taken(descriptor):
            self.release()
            raise StateStoreLockedError(f"the stores in {directory} are locked: {OPEN_ELSEWHERE}")
        _held.add(self)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        self._close()

    def remove(self) -> None:
        """Delete the file, then release the lock."""
        self._file.unlink()
        self.release()


def remove_unlocked(lock_files: Iterable[Path]) -> None:
    """Remove each lock file that no process has locked, with its directory: killed processes have left them."""
    for file in lock_files:
        directory = file.with_name(file.name.removesuffix(LOCK))
        try:
            lock = DirectoryLock(directory)
        except (StateStoreLockedError, OSError):
            continue  # in use, or of another user
        shutil.rmtree(directory, ignore_errors=True)
        lock.remove()


def _with_owner(error: PermissionError, file: Path) -> PermissionError:
    """Returns ``error`` with the users concerned and the way out; as it is if ``file`` does not exist."""
    try:
        owner = file.stat().st_uid
    except OSError:
        return error
    return PermissionError(
        error.errno,
        f"a lock file belongs to {_user(owner)}, and this process, of {_user(os.geteuid())}, may not write it. Run all "
        "processes of the application as one user. If no process of the other user runs it, delete the file",
        str(file),
    )


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name!r}"
    except KeyError:  # such as one of another container
        return f"user {number}"


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(descriptor).st_nlink > 0  # else its last owner has removed it, and there may be another file


_held: WeakSet[DirectoryLock] = WeakSet()


def _release_in_child() -> None:
    # A child process would keep the lock after its parent's death.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
