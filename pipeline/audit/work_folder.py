"""The folder of an audit's work on the auditor's machine: it ends with the audit, or, if that is killed, with the next
one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.common.errors import StateStoreLockedError
from penstock.pipeline.task_hosts.stores import new_run_id
from penstock.state.disk.directory_lock import LOCK, DirectoryLock, remove_unlocked

_PREFIX = "audit-work-"
"""``penstock reset`` removes what begins with ``audit-``."""


@contextmanager
def work_folder(root: Path) -> Iterator[Path]:
    """Yields a new folder in the application's directory ``root``, which is removed at the end. Removes those of audits
    that were killed."""
    remove_unlocked(root.glob(f"{_PREFIX}*{LOCK}"))
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
