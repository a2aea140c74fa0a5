"""The hash by which objects are named and compared: BLAKE2b with 128 bits, in hexadecimal digits."""

from __future__ import annotations

import hashlib
from pathlib import Path

_BYTES = 16


def new_digest() -> hashlib.blake2b:
    """Returns a hash of nothing, which takes content piece by piece."""
    return hashlib.blake2b(digest_size=_BYTES)


def digest_of(content: bytes) -> str:
    """Returns the hash of ``content``."""
    return hashlib.blake2b(content, digest_size=_BYTES).hexdigest()


def digest_of_file(file: Path) -> str:
    """Returns the hash of the content of ``file``, which is read in pieces."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, new_digest).hexdigest()
