"""The wait for members of another protocol, which keep the coordinator's member out of the consumer group."""

from __future__ import annotations

from datetime import UTC, datetime

from structlog.stdlib import BoundLogger

from penstock.kafka.contracts import OtherProtocolError

AGAIN_S = 1.0
"""Seconds between two attempts to join while the other members may be those of a stopped application."""
STILL_AGAIN_S = 5.0
"""Seconds between two attempts to join when the other members most likely belong to an application that runs."""
_MARGIN_S = 5.0
"""Time after the session time-out within which a broker removes a member, and this member tries again."""
_REFUSED_WITHIN_S = 10.0
"""Longest time between two refusals that counts. A broker refuses a member sooner: a longer time is an outage."""


class KeptOut:
    """The reason why the member waits, in a sentence for users. The wait has no end.

    A process that ended stays in the group until its session times out, within ``session_s`` seconds. Members that
    stay longer most likely belong to an application that runs, and the sentence changes.
    """

    def __init__(self, session_s: float, log: BoundLogger) -> None:
        self._session_s = session_s
        self._log = log
        self._until_s = 0.0
        self._refused_s: float | None = None
        self._stay = False
        self.notice: str | None = None
        """The sentence; None if no other members keep this one out."""

    def refused(self, error: OtherProtocolError, now_s: float, wall_s: float) -> float:
        """Note a refusal at ``now_s`` of a monotonic clock, ``wall_s`` of the wall clock. Returns the seconds after
        which the member tries again."""
        first = self._refused_s is None
        if self._refused_s is None:
            self._until_s = now_s + self._session_s + _MARGIN_S
        else:
            self._until_s += max(0.0, now_s - self._refused_s - _REFUSED_WITHIN_S)
        self._refused_s = now_s
        stayed = now_s >= self._until_s
        if stayed:
            self.notice = (
                f"{error}. They have stayed for longer than a session.timeout.ms of {self._session_s:.0f} s, so that "
                "application most likely runs: stop it, or give this one another application.id. This application "
                "waits, and continues when they have left"
            )
        else:
            latest = datetime.fromtimestamp(wall_s + self._until_s - now_s, UTC)
            self.notice = (
                f"{error}. Waiting until they have left, which takes until {latest:%H:%M:%S} UTC at the latest if "
                "that application has been stopped"
            )
        if first or stayed != self._stay:
            self._log.warning("waiting for other members of the group to leave", why=self.notice)
        self._stay = stayed
        return STILL_AGAIN_S if stayed else AGAIN_S

    def joined(self) -> None:
        """The group has let this member in."""
        if self._refused_s is not None:
            self._log.info("the other members have left the group")
        self._refused_s, self._stay, self.notice = None, False, None
