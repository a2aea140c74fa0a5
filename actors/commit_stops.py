"""How long commits keep records waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.actors.messages import CommitStops

_REMEMBERED = 1000


class StopWatch:
    """Measures each stop, from when a commit takes the thread until records may be processed again, and what the stops
    of one commit come to. Remembers the last 1000 of both."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._since: float | None = None
        self._of_commit = 0.0
        self._stops: deque[float] = deque(maxlen=_REMEMBERED)
        self._commits: deque[float] = deque(maxlen=_REMEMBERED)

    def stop(self) -> None:
        """Records wait from here on, if they did not already."""
        if self._since is None:
            self._since = self._clock_s()

    def resume(self) -> None:
        """Records may be processed."""
        if self._since is not None:
            waited = self._clock_s() - self._since
            self._since = None
            self._of_commit += waited
            self._stops.append(waited)

    def committed(self) -> None:
        """The commit is through; what follows belongs to the next."""
        self.resume()
        self._commits.append(self._of_commit)
        self._of_commit = 0.0

    def summary(self) -> CommitStops:
        """As of now."""
        return CommitStops(
            len(self._commits),
            len(self._stops),
            _percentile(self._stops, 0.5),
            _percentile(self._stops, 0.99),
            _percentile(self._stops, 1.0),
            1000 * sum(self._commits) / max(1, len(self._commits)),
            _percentile(self._commits, 1.0),
        )


def _percentile(seconds: deque[float], share: float) -> float:
    """In ms; 0 of nothing."""
    if not seconds:
        return 0.0
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1000
