"""Damages files: bytes that change, and a disk that takes no more."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_ROOM = 256 << 10
"""Bytes that each file may have of a process that is to find the disk full: what it logs is less."""
_FLIPS = 8
_KINDS = ("*.sst", "MANIFEST-*", "*.log")


def open_databases(process: psutil.Process) -> list[Path]:
    """Returns the directories of RocksDB that ``process`` has locked."""
    return sorted({Path(file.path).parent for file in process.open_files() if Path(file.path).name == "LOCK"})


def damage(databases: Iterable[Path], pick: int) -> list[str]:
    """Flip some bytes in one file of each of these databases. Returns the files. Their owner must not be running."""
    chance = random.Random(pick)
    done = []
    for database in databases:
        kinds = [[file for file in sorted(database.glob(kind)) if file.stat().st_size] for kind in _KINDS]
        if kinds := [files for files in kinds if files]:
            file = chance.choice(chance.choice(kinds))
            _flip(file, chance)
            done.append(f"{database.parent.name}/{file.name}")
    return done


def _flip(file: Path, chance: random.Random) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        for _ in range(_FLIPS):
            at = chance.randrange(size)
            opened.seek(at)
            (byte,) = opened.read(1)
            opened.seek(at)
            opened.write(bytes([byte ^ (1 + chance.randrange(255))]))


def fill_disk(process: psutil.Process) -> None:
    """Let no file of ``process`` grow beyond some 256 KB, if the system can do that (Linux): writing more fails."""
    process.rlimit(psutil.RLIMIT_FSIZE, (_ROOM, resource.RLIM_INFINITY))


def make_room(process: psutil.Process) -> None:
    """Let files grow again."""
    with suppress(psutil.NoSuchProcess):
        process.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
