"""Remembers since when findings hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.cluster.findings import Finding

Since = Mapping[str, int | None]
"""The time (ms since 1970) at which each finding was first seen, by what it is about; None if that is not known."""

GONE_MS = 10_000
"""A finding that comes back within this time keeps its time: its figures may vary around a limit."""
UNKNOWN_MS = 30_000
"""After a restart, a finding that is first seen within this time may be older: stream actors have to report first."""
MOST = 1000


@dataclass(slots=True)
class _Seen:
    since_ms: int | None
    gone_ms: int | None = None
    """Time of the first look without it; None while it is there."""


class FirstSeen:
    """The findings of one coordinator that began at ``began_ms``; ``restarted``: another one was there before."""

    def __init__(self, began_ms: int, restarted: bool) -> None:
        self._known_from_ms = began_ms + UNKNOWN_MS if restarted else began_ms
        self._seen: dict[str, _Seen] = {}

    def look(self, found: Iterable[Finding], at_ms: int) -> Since:
        """Returns the times for the findings that there are at ``at_ms``, of which the first 1000 count."""
        abouts = dict.fromkeys(each.about for each in found)
        begins = at_ms if at_ms >= self._known_from_ms else None
        now: dict[str, _Seen] = {}
        for about, _ in zip(abouts, range(MOST), strict=False):
            before = self._seen.get(about)
            lasts = before is not None and (before.gone_ms is None or at_ms - before.gone_ms <= GONE_MS)
            now[about] = _Seen(before.since_ms if lasts and before is not None else begins)
        since = {about: each.since_ms for about, each in now.items()}
        for about, each in self._seen.items():
            gone_ms = at_ms if each.gone_ms is None else each.gone_ms
            if about not in now and at_ms - gone_ms <= GONE_MS and len(now) < 2 * MOST:
                now[about] = _Seen(each.since_ms, gone_ms)
        self._seen = now
        return since
