"""A copy of an open database: what a kill of the process at this moment would leave, made of hard links.

RocksDB's own ``Checkpoint`` first flushes what is in memory, and waits a dozen times until the disk has it: some
milliseconds on an idle disk, half a second on a busy one. A copy for an upload need not survive a power cut. RocksDB
recovers rows that are only in its log, so the log is copied instead.

The image is of one moment if nothing is written meanwhile, and if the manifest is the same before and after: RocksDB
appends to the manifest before it uses new tables or deletes old ones. Otherwise it is made again.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.common.errors import StateStoreError

_ATTEMPTS = 50
_TABLE = re.compile(r"\d+\.sst")
_LOG = re.compile(r"\d+\.log")
_OTHERS = re.compile(r"IDENTITY|OPTIONS-\d+|rocksdict-config\.json")
_CURRENT = "CURRENT"
_END_OF_TABLE = 0x88E241B785F4CFF7.to_bytes(8, "little")


def copy_database(path: Path, target: Path, live_tables: Callable[[], set[str]]) -> None:
    """Put the database in ``path`` into the new folder ``target`` on the same file system. ``live_tables`` returns the
    names of the tables in use. The caller must not write meanwhile; RocksDB's own threads may."""
    for _ in range(_ATTEMPTS):
        target.mkdir()
        try:
            manifest, size = _manifest(path)
            _copy_files(path, target, live_tables())
            _copy_beginning(path / manifest, target / manifest, size)
            (target / _CURRENT).write_text(f"{manifest}\n")
            if _manifest(path) == (manifest, size):
                return
        except FileNotFoundError:
            pass  # RocksDB has just replaced its manifest
        shutil.rmtree(target)
    raise StateStoreError(f"no copy of {path} could be made: its files have changed each of {_ATTEMPTS} times")


def _manifest(path: Path) -> tuple[str, int]:
    """Returns the name of the manifest in use, and its size."""
    name = (path / _CURRENT).read_text().strip()
    return name, (path / name).stat().st_size


def _copy_files(path: Path, target: Path, live_tables: set[str]) -> None:
    for source in path.iterdir():
        name = source.name
        try:
            if _TABLE.fullmatch(name):
                if name in live_tables or _is_whole(source):
                    (target / name).hardlink_to(source)
            elif _LOG.fullmatch(name) or _OTHERS.fullmatch(name):
                shutil.copyfile(source, target / name)
        except FileNotFoundError:
            pass  # deleted meanwhile: if it was in use before, the manifest has changed


def _is_whole(table: Path) -> bool:
    """Returns True if RocksDB has written the table to its end. It may be in the manifest, and not in use yet."""
    with table.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(_END_OF_TABLE)))
        return file.read() == _END_OF_TABLE


def _copy_beginning(source: Path, target: Path, size: int) -> None:
    with source.open("rb") as file, target.open("wb") as copy:
        copy.write(file.read(size))
