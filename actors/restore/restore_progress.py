"""Measures the progress of a restore: records, their rate, and the time it has taken."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 10.0
_SAMPLE_EVERY_S = 1.0


class RestoreProgress:
    """Progress of one store, or of all stores of one task. ``total``: the records restored since it was made."""

    def __init__(self, now_s: float) -> None:
        self.total = 0
        self._begun_s = now_s
        self._samples = deque([(now_s, 0)])

    def restored(self, records: int, now_s: float) -> None:
        """Adds ``records`` that were restored by now."""
        self.total += records
        if now_s - self._samples[-1][0] >= _SAMPLE_EVERY_S:
            self._samples.append((now_s, self.total))
            while len(self._samples) > 2 and now_s - self._samples[1][0] >= _WINDOW_S:
                self._samples.popleft()

    def rate(self, now_s: float) -> float:
        """Returns the records per second, over the last ten seconds or so."""
        at_s, total = self._samples[0]
        return (self.total - total) / (now_s - at_s) if now_s > at_s else 0.0

    def took_s(self, now_s: float) -> float:
        """Returns the seconds since it was made."""
        return now_s - self._begun_s
