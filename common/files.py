"""Writes files that other processes read meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str, mode: int | None = None) -> None:
    """Write ``file`` so that a reader, also after a crash, finds all of the old text or all of the new text.
    ``mode``: its permissions. Raises OSError."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    fresh.write_text(text)
    if mode is not None:
        fresh.chmod(mode)
    fresh.replace(file)
