"""A line in the log, each ``log.summary.interval.ms``, about the work of an actor. It has Kafka Streams' numbers."""

from __future__ import annotations

from typing import NamedTuple

from penstock.common.log import logger


class Totals(NamedTuple):
    """Numbers since the actor's start: records that were processed, calls of punctuators, and commits."""

    records: int = 0
    punctuators: int = 0
    commits: int = 0


class LogSummary:
    """Logs what was done since the last line. ``interval_ms``: 0 or less logs nothing. ``now_s``: of any clock that
    only goes forward."""

    def __init__(self, interval_ms: int, now_s: float) -> None:
        self._interval_s = interval_ms / 1000
        self._last = Totals()
        self._at_s = now_s

    def look(self, now_s: float, totals: Totals) -> None:
        """Log a line if it is time. Call this every second or so."""
        passed_s = now_s - self._at_s
        if self._interval_s <= 0 or passed_s < self._interval_s:
            return
        done = Totals(*(now - before for now, before in zip(totals, self._last, strict=True)))
        logger(__name__).info("processed since the last summary", **done._asdict(), seconds=round(passed_s))
        self._last, self._at_s = totals, now_s
