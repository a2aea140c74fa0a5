"""Files of tests in memory, if the machine has room.

RocksDB and Kafka wait for the disk at each of thousands of small stores and topics. No test needs the disk for what it
shows: a process that is killed loses nothing that it has written to a file system, in memory or not.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

FOLDER = Path("/dev/shm")
_PLACE = "PYTEST_DEBUG_TEMPROOT"
_NEEDED = 6 << 30
"""Bytes that must be free: a run keeps less than 1 GB of files at a time."""


def keep_files() -> None:
    """Has ``tmp_path`` and ``tempfile`` of this process make their files in memory, if there is room; or where
    pytest's own variable says, which the processes of ``make test`` inherit."""
    if _PLACE not in os.environ and has_room(FOLDER):
        os.environ[_PLACE] = str(FOLDER)
    tempfile.tempdir = os.environ.get(_PLACE)


def delete(folder: Path) -> None:
    """Delete the files of a run, if they are in memory."""
    if folder.is_relative_to(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)


def has_room(folder: Path) -> bool:
    """Returns True if there is such a folder, and room in it and in memory."""
    if not os.access(folder, os.W_OK):
        return False
    return min(shutil.disk_usage(folder).free, psutil.virtual_memory().available) >= _NEEDED
