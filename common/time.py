"""Durations: users give ``timedelta`` or whole milliseconds, everything inside is milliseconds."""

from __future__ import annotations

from datetime import timedelta

Duration = timedelta | int


def to_ms(duration: Duration, what: str) -> int:
    """``duration`` in whole ms; ``what`` names it in an error.

    Raises ValueError when it is negative, TypeError when it is neither form.
    """
    if isinstance(duration, timedelta):
        duration = duration // timedelta(milliseconds=1)
    elif isinstance(duration, bool) or not isinstance(duration, int):
        raise TypeError(f"{what} must be a timedelta or whole milliseconds, not {duration!r}")
    if duration < 0:
        raise ValueError(f"{what} may not be negative: {duration} ms")
    return duration
