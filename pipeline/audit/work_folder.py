"""The folder of an audit's work on the auditor's machine: it ends with the audit, or, if that is killed, with the next
one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.common.errors import StateStoreLockedError
from penstock.pipeline.task_hosts.stores import new_run_id
from penstock.state.disk.directory_lock import LOCK, DirectoryLock

_PREFIX = "audit-work-"
"""``penstock reset`` removes what begins with ``audit-``."""


@contextmanager
def work_folder(root: Path) -> Iterator[Path]:
    """Yields a new folder in the application's directory ``root``, which is removed at the end. Removes those of audits
    that were killed."""
    _remove_left(root)
    folder, lock = _new(root)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.remove()


def _new(root: Path) -> tuple[Path, DirectoryLock]:
    while True:
        folder = root / f"{_PREFIX}{new_run_id()}"
        try:
            lock = DirectoryLock(folder)
        except StateStoreLockedError:
            continue  # another audit looks if it is left
        folder.mkdir()
        return folder, lock


def _remove_left(root: Path) -> None:
    for file in root.glob(f"{_PREFIX}*{LOCK}"):
        folder = file.with_name(file.name.removesuffix(LOCK))
        try:
            lock = DirectoryLock(folder)
        except (StateStoreLockedError, OSError):
            continue  # in use, or of another user
        shutil.rmtree(folder, ignore_errors=True)
        lock.remove()
