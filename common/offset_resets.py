"""The position at which reading of a topic begins without a committed offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.common.time import Duration, to_ms


@dataclass(frozen=True)
class ByDuration:
    """Begin at the first record whose timestamp is at most ``duration_ms`` before now; if there is none, at the end."""

    duration_ms: int

    def __str__(self) -> str:
        return f"by_duration:{self.duration_ms} ms"


OffsetReset = Literal["earliest", "latest", "none"] | ByDuration
"""The position at which to begin in a topic without a committed offset; with ``none`` that is an error."""


class AutoOffsetReset:
    """The positions at which to begin in a topic without a committed offset. Mirrors ``AutoOffsetReset``."""

    @staticmethod
    def none() -> Literal["none"]:
        """Returns no position: without a committed offset whose records still exist, the application fails."""
        return "none"

    @staticmethod
    def earliest() -> Literal["earliest"]:
        """Returns the position of the first record that exists."""
        return "earliest"

    @staticmethod
    def latest() -> Literal["latest"]:
        """Returns the position after the last record that exists."""
        return "latest"

    @staticmethod
    def by_duration(duration: Duration) -> ByDuration:
        """Returns the position of the first record whose timestamp is at most ``duration`` before the time when reading
        begins; if there is none, the end. A time before 1970 counts as 1970. Raises ValueError for a negative duration,
        TypeError for one that is neither timedelta nor whole ms."""
        return ByDuration(to_ms(duration, "duration"))
