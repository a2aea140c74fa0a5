"""Windows as values: spans of event time, and keys that belong to one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple

from typing_extensions import TypeVar

K = TypeVar("K", covariant=True)

LARGEST_TIMESTAMP = (1 << 63) - 1
"""Java's ``Long.MAX_VALUE``: the end of a window that would end later."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _time(ms: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise OverflowError(f"no datetime can represent {ms} ms since 1970: it is after the year 9999") from None


class Window(NamedTuple):
    """From ``start`` to ``end``, in ms since 1970. Mirrors ``Window``.

    The end of a session is its last record, and belongs to it; the end of a window of fixed size does not.
    """

    start: int
    end: int

    def start_time(self) -> datetime:
        """The start in UTC. Raises OverflowError for a time after the year 9999."""
        return _time(self.start)

    def end_time(self) -> datetime:
        """The end in UTC. Raises OverflowError for a time after the year 9999, as that of a window without an end."""
        return _time(self.end)


class Windowed(NamedTuple, Generic[K]):
    """``key`` within ``window``. Mirrors ``Windowed``.

    Its text is Kafka Streams': ``[key@start/end]``.
    """

    key: K
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"


def time_window(start: int, size_ms: int) -> Window:
    """The window of ``size_ms`` that begins at ``start``; if its end would be beyond the largest possible timestamp, it
    ends there."""
    return Window(start, min(start + size_ms, LARGEST_TIMESTAMP))
