"""Hashes of the files of a task's directory, each computed once as long as the file is the same."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.objects.digests import digest_of_file

_IMMUTABLE = ".sst"


class LocalFile(NamedTuple):
    """A file of a folder: its path relative to that, its hash and its bytes."""

    name: str
    path: Path
    digest: str
    size: int


class FileDigests:
    """Remembers hashes of RocksDB's tables, which never change: by their number, size, inode and time. A hard link to a
    table has all these in common with it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int], str] = {}

    def of_folder(self, folder: Path) -> list[LocalFile]:
        """Returns all files below ``folder``, in the order of their names, and forgets those that are not there."""
        known, self._known = self._known, {}
        files = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, found = path.relative_to(folder).as_posix(), path.stat()
            identity = name, found.st_size, found.st_ino, found.st_mtime_ns
            digest = known.get(identity) or digest_of_file(path)
            if path.suffix == _IMMUTABLE:
                self._known[identity] = digest
            files.append(LocalFile(name, path, digest, found.st_size))
        return files
