"""The times since which findings hold, as one server has seen them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.api.findings import Finding

Since = Mapping[str, int | None]
"""The time (ms since 1970) at which each finding was first seen, by what it is about; None if that is not known."""

GAP_S = 60.0
"""Seconds without a look after which nothing is known about the time before."""
_MOST = 1000


class FirstSeen:
    """Remembers when each finding was first seen, until it is gone.

    A finding that is there at the first look, or at the first one after a gap, may be older: its time is not known.
    """

    def __init__(self) -> None:
        self._since: dict[str, int | None] = {}
        self._looked_s: float | None = None

    def look(self, found: Iterable[Finding], now_s: float, at_ms: int) -> Since:
        """Returns the times for the findings that there are now, at most 1000. ``now_s`` is any clock that only goes
        forward, ``at_ms`` the time in ms since 1970."""
        known = self._looked_s is not None and now_s - self._looked_s <= GAP_S
        before, self._looked_s = self._since if known else {}, now_s
        begins = at_ms if known else None
        abouts = list(dict.fromkeys(each.about for each in found))[:_MOST]
        self._since = {about: before.get(about, begins) for about in abouts}
        return self._since
