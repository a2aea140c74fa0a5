"""Has the C library give large pieces of memory back to the system as soon as they are freed."""

from __future__ import annotations

import ctypes
from typing import Any

_M_MMAP_THRESHOLD = -3
"""A parameter of ``mallopt``, from glibc's ``malloc.h``."""
_LARGE_BYTES = 256 << 10


def return_large_pieces() -> bool:
    """Have every piece of 256 KiB or more mapped by itself. Returns False if the C library is not glibc.

    glibc begins that way, but takes the size of each mapped piece that is freed as the next limit, up to 32 MiB. Then
    the tables into which dictionaries grow before each commit lie among small objects, and the process keeps them.
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) == 1
