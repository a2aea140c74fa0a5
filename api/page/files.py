"""The files of the page, as they are in the package: read once, and compressed once."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media type of each kind of file; the page has no others."""


@dataclass(frozen=True)
class PageFile:
    """A file, with its compressed form and a tag that changes with its content."""

    content: bytes
    compressed: bytes
    media_type: str
    tag: str


@cache
def page_files(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """Returns every file of the page by its name."""
    return {file.name: _read(file) for file in sorted(folder.iterdir()) if file.suffix in MEDIA_TYPES}


def _read(file: Path) -> PageFile:
    content = file.read_bytes()
    compressed = gzip.compress(content, mtime=0)
    return PageFile(content, compressed, MEDIA_TYPES[file.suffix], sha256(content).hexdigest()[:32])
