"""``JoinWindows``: the time by which records of two streams may be apart to be joined."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from penstock.common.time import Duration, to_ms


@dataclass(frozen=True)
class JoinWindows:
    """Two records of one key join if the second stream's is at most ``before_ms`` before and ``after_ms`` after the
    first stream's, by their timestamps, both ends included. Mirrors ``JoinWindows``.

    ``grace_ms``: the stream time after the end of its window for which a record without a match waits before a left or
    outer join emits it alone. Records are kept for ``before_ms + after_ms + grace_ms``; a record that comes late is
    still joined with those that are kept.

    Either of ``before_ms`` and ``after_ms`` may be negative, which moves the window away from the record, as long as
    its end does not come before its beginning. Raises ValueError for one that does.

    >>> import penstock as ps
    >>> ps.JoinWindows.of_time_difference_with_no_grace(200).after(500)
    JoinWindows(before_ms=200, after_ms=500, grace_ms=0)
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms < 0:
            raise ValueError(
                f"JoinWindows: the window ends before it begins: before_ms + after_ms is {self.before_ms} + "
                f"{self.after_ms}, and may not be negative"
            )
        to_ms(self.grace_ms, "JoinWindows: grace_ms")

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> JoinWindows:
        """Returns windows that reach ``time_difference`` before and after, without a grace period. Mirrors
        ``ofTimeDifferenceWithNoGrace``."""
        return JoinWindows.of_time_difference_and_grace(time_difference, 0)

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> JoinWindows:
        """Returns windows that reach ``time_difference`` before and after, with the grace period ``after_window_end``.
        Mirrors ``ofTimeDifferenceAndGrace``."""
        difference_ms = to_ms(time_difference, "JoinWindows: time_difference")
        return JoinWindows(
            difference_ms, difference_ms, to_ms(after_window_end, "JoinWindows: the grace period after_window_end")
        )

    def before(self, time_difference: Duration) -> JoinWindows:
        """Returns a copy that reaches back by ``time_difference``. Mirrors ``before``."""
        return replace(self, before_ms=_signed_ms(time_difference, "JoinWindows: before"))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Returns a copy that reaches ahead by ``time_difference``. Mirrors ``after``."""
        return replace(self, after_ms=_signed_ms(time_difference, "JoinWindows: after"))

    @property
    def size_ms(self) -> int:
        """Time (ms) from the beginning of the window to its end."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """Time (ms) for which records are kept to be joined."""
        return self.size_ms + self.grace_ms


def _signed_ms(duration: Duration, what: str) -> int:
    negative = duration < timedelta() if isinstance(duration, timedelta) else type(duration) is int and duration < 0
    return -to_ms(-duration, what) if negative else to_ms(duration, what)
