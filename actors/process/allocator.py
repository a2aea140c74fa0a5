"""Has the C library return large pieces of memory to the system as soon as they are freed."""

from __future__ import annotations

import ctypes
from typing import Any

_M_MMAP_THRESHOLD = -3
"""A parameter of ``mallopt``, from glibc's ``malloc.h``."""
_LARGE_BYTES = 256 << 10


def return_large_pieces() -> bool:
    """Have every piece of 256 KiB or more mapped by itself. Returns False if the C library is not glibc.

    glibc begins with such a limit, but raises it to the size of each mapped piece that is freed, up to 32 MiB. Then the
    tables of large dictionaries, which grow before each commit, are among small objects, and the process keeps them.
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) == 1
