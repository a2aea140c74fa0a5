"""Measures how long commits take, and how long they keep records waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 1000
_MINUTE_S = 60.0


@dataclass(frozen=True)
class CommitStops:
    """The times, in ms, that records waited for commits, over an actor's last 1000 of each kind: each stop, and,
    as ``per_commit``, the sum of the stops of one commit. ``latency``: the time from the beginning of a commit until it
    was accepted and written; records are processed during most of it."""

    commits: int = 0
    stops: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    per_commit_avg_ms: float = 0.0
    per_commit_max_ms: float = 0.0
    latency_avg_ms: float = 0.0
    latency_max_ms: float = 0.0
    minute_p50_ms: float = 0.0
    minute_max_ms: float = 0.0
    """Like ``per_commit``, of the commits of the last minute; 0 if there was none."""


NO_STOPS = CommitStops()
"""There was no commit."""


class CommitStopMeter:
    """Measures each stop, from when a commit takes the thread until records may be processed again. Also measures the
    sum of the stops of one commit, and the time of a commit from its first stop until it is accepted. Remembers the
    last 1000 of each."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._since: float | None = None
        self._begun: float | None = None
        self._of_commit = 0.0
        self.stopped_s = 0.0
        """Seconds that records have waited, all stops together."""
        self._stops: deque[float] = deque(maxlen=_REMEMBERED)
        self._commits: deque[float] = deque(maxlen=_REMEMBERED)
        self._finished_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._latencies: deque[float] = deque(maxlen=_REMEMBERED)

    def stop(self) -> None:
        """Note that records wait from now on, if they did not already."""
        if self._since is None:
            self._since = self._clock_s()
            if self._begun is None:
                self._begun = self._since

    def resume(self) -> None:
        """Note that records may be processed."""
        if self._since is not None:
            waited = self._clock_s() - self._since
            self._since = None
            self._of_commit += waited
            self.stopped_s += waited
            self._stops.append(waited)

    def finished(self, accepted: bool) -> None:
        """Closes the figures of a commit; later stops belong to the next one. A refused commit has no latency."""
        self.resume()
        self._commits.append(self._of_commit)
        self._finished_s.append(self._clock_s())
        self._of_commit = 0.0
        if accepted and self._begun is not None:
            self._latencies.append(self._clock_s() - self._begun)
        self._begun = None

    def summary(self) -> CommitStops:
        """Returns the figures of the last commits until now."""
        began_s = self._clock_s() - _MINUTE_S
        minute = deque(stop for at, stop in zip(self._finished_s, self._commits, strict=True) if at >= began_s)
        return CommitStops(
            len(self._commits),
            len(self._stops),
            _percentile(self._stops, 0.5),
            _percentile(self._stops, 0.99),
            _percentile(self._stops, 1.0),
            _average(self._commits),
            _percentile(self._commits, 1.0),
            _average(self._latencies),
            _percentile(self._latencies, 1.0),
            _percentile(minute, 0.5),
            _percentile(minute, 1.0),
        )


def _average(seconds: deque[float]) -> float:
    """Returns the average in ms; 0.0 if there are no values."""
    return 1000 * sum(seconds) / max(1, len(seconds))


def _percentile(seconds: deque[float], share: float) -> float:
    """Returns the percentile in ms; 0.0 if there are no values."""
    if not seconds:
        return 0.0
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1000
