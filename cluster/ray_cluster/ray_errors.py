"""The part of a Ray error that a user needs: its text may be a whole traceback."""

from __future__ import annotations


def last_line(error: Exception) -> str:
    """The line that names the cause: Ray puts the traceback of the other process before it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
