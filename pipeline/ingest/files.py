"""Finds the files below a URL, and their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from penstock.common.errors import ConfigError
from penstock.objects.contracts import ObjectInfo
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.ingest.contracts import FileFormat, SourceFile

SUFFIXES: Mapping[str, FileFormat] = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSON_LINES,
    ".ndjson": FileFormat.JSON_LINES,
    ".json": FileFormat.JSON_LINES,  # as Spark names them
}


@dataclass(frozen=True)
class Source:
    """The files of an ingest, in the order of their names, and the location that their names are relative to. ``url``
    is that of the file or folder, without credentials, always in the same form. ``snapshot``: of a table, the id of
    the snapshot whose files they are. ``check_columns``: raises ConfigError for a file that lacks the table's columns.
    """

    url: str
    location: ObjectLocation
    files: tuple[SourceFile, ...]
    snapshot: str = ""
    check_columns: Callable[[pa.Schema], None] | None = None


def find_source(url: str, settings: Mapping[str, Any], given: FileFormat | None = None) -> Source:
    """Returns the file at ``url``, or the files below it. Files and folders whose names begin with ``_`` or ``.`` are
    left out, as Spark and Hive do it.

    ``given``: the format of all files; without it the ends of their names show it, and all must have the same. Raises
    ConfigError if there is no file, or no single format, and ObjectStoreError.
    """
    location, single = _location(url, settings)
    objects = location.open()
    if single is not None:
        info = objects.info(single)
        found = [info] if info is not None else []
    else:
        found = [info for info in objects.list() if not _is_hidden(info.name)]
    if not found:
        raise ConfigError(f"there are no files in {objects.url}: name a file, or a folder with files")
    url = objects.url.rstrip("/") if single is None else f"{objects.url.rstrip('/')}/{single}"
    return Source(url, location, tuple(_with_format(info, given) for info in _of_one_format(found, given)))


def _location(url: str, settings: Mapping[str, Any]) -> tuple[ObjectLocation, str | None]:
    """Returns the location, and the name of the single file in it if ``url`` names one."""
    parts = urlsplit(url)
    parent, _, last = url.rstrip("/").rpartition("/")
    if parts.scheme in ("", "file"):
        path = Path(parts.path).absolute()  # executors have other current folders
        if not path.exists():  # opening a location would make the folder
            raise ConfigError(f"there is no file or folder {path}")
        if path.is_file():
            return ObjectLocation(str(path.parent), settings), path.name
        return ObjectLocation(str(path), settings), None
    if parts.path.strip("/") and not url.endswith("/"):
        location = ObjectLocation(parent, settings)
        if location.open().info(last) is not None:
            return location, last
    return ObjectLocation(url, settings), None


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _format_of(name: str) -> FileFormat | None:
    return SUFFIXES.get(PurePosixPath(name).suffix.lower())


def _of_one_format(found: list[ObjectInfo], given: FileFormat | None) -> list[ObjectInfo]:
    if given is not None:
        return found
    first = found[0]
    for info in found:
        if _format_of(info.name) is None:
            raise ConfigError(
                f"the name of {info.name!r} does not show its format: it ends with none of {', '.join(SUFFIXES)}. Give "
                f"--format {'|'.join(FileFormat)}, or move the file away"
            )
        if _format_of(info.name) is not _format_of(first.name):
            raise ConfigError(
                f"{first.name!r} and {info.name!r} are of different formats: ingest them from different folders, or "
                "give --format if all files are of one"
            )
    return found


def _with_format(info: ObjectInfo, given: FileFormat | None) -> SourceFile:
    format_ = given or _format_of(info.name)
    assert format_ is not None
    return SourceFile(info.name, info.size, info.modified_ms, format_)
