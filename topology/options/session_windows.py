"""``SessionWindows``: windows that last as long as records keep coming."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.errors import TopologyError
from penstock.common.time import Duration, to_ms


@dataclass(frozen=True)
class SessionWindows:
    """Windows of records of one key that follow each other without a long pause. Mirrors ``SessionWindows``.

    A session goes from the timestamp of its first record to that of its last, both included. A record that is at most
    ``inactivity_gap_ms`` away from a session belongs to it; one that is so near to several sessions merges them into
    one. A session takes no more records when the stream time that the operator has observed is past its end by more
    than ``inactivity_gap_ms`` and ``grace_period_ms`` together.
    """

    inactivity_gap_ms: int
    grace_period_ms: int

    def __post_init__(self) -> None:
        for what, ms in (("inactivity gap", self.inactivity_gap_ms), ("grace period", self.grace_period_ms)):
            if isinstance(ms, bool) or not isinstance(ms, int):
                raise TopologyError(f"SessionWindows: the {what} must be whole milliseconds, not {ms!r}")
        if self.inactivity_gap_ms <= 0:
            raise TopologyError(
                f"SessionWindows: the inactivity gap must be at least 1 ms, not {self.inactivity_gap_ms} ms"
            )
        if self.grace_period_ms < 0:
            raise TopologyError(f"SessionWindows: the grace period may not be negative: {self.grace_period_ms} ms")

    @staticmethod
    def of_inactivity_gap_with_no_grace(inactivity_gap: Duration) -> SessionWindows:
        """Returns sessions that end with a pause longer than ``inactivity_gap``, and have no grace period. Mirrors
        ``ofInactivityGapWithNoGrace``.
        """
        return SessionWindows.of_inactivity_gap_and_grace(inactivity_gap, 0)

    @staticmethod
    def of_inactivity_gap_and_grace(inactivity_gap: Duration, after_window_end: Duration) -> SessionWindows:
        """Returns sessions that end with a pause longer than ``inactivity_gap``, with the grace period
        ``after_window_end``.

        During the grace period late records are still taken. Durations are a ``timedelta`` or whole milliseconds.
        Mirrors ``ofInactivityGapAndGrace``.

        >>> import penstock as ps
        >>> from datetime import timedelta
        >>> ps.SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=5), timedelta(seconds=30))
        SessionWindows(inactivity_gap_ms=300000, grace_period_ms=30000)
        """
        return SessionWindows(
            to_ms(inactivity_gap, "SessionWindows: inactivity_gap"),
            to_ms(after_window_end, "SessionWindows: the grace period after_window_end"),
        )
