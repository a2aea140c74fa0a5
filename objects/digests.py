"""The hash by which objects are named and compared: BLAKE2b with 128 bits, in hexadecimal digits."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

_BYTES = 16
_hasher = partial(hashlib.blake2b, digest_size=_BYTES)


def digest_of(content: bytes) -> str:
    """Returns the hash of ``content``."""
    return _hasher(content).hexdigest()


def digest_of_file(file: Path) -> str:
    """Returns the hash of the content of ``file``, which is read in pieces."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, _hasher).hexdigest()
