"""Counts and times for metrics: adding is cheap, and figures are computed on request."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

WINDOW_S = 30.0
"""Approximate seconds that rates, averages and maxima cover, up to the moment they are asked for (Kafka Streams:
``metrics.sample.window.ms``)."""
_SAMPLE_EVERY_S = 5.0

LATENCY_BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000)
"""Upper ends of the buckets of an end-to-end latency; one more bucket has the latencies above them all. From the delay
of a busy loop to that of an outage."""


class Meter:
    """Counts calls, and adds up their amounts: seconds, or records. ``highest``: the largest amount of a single call
    since it was last reset to 0."""

    __slots__ = ("count", "highest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.highest = 0.0

    def add(self, amount: float) -> None:
        """Counts a call with ``amount``."""
        self.count += 1
        self.total += amount
        if amount > self.highest:
            self.highest = amount


class Look(NamedTuple):
    """The last half minute: calls per second, their amount per second (for seconds: the share of the time), and the
    average and the extremes of a single call. All 0 if there was no call."""

    rate: float = 0.0
    per_second: float = 0.0
    average: float = 0.0
    highest: float = 0.0
    lowest: float = 0.0


@dataclass(slots=True)
class _Sample:
    """The count and the total at ``at_s``, and the extremes between then and the next sample."""

    at_s: float
    count: float
    total: float
    highest: float = 0.0
    lowest: float | None = None

    def widen(self, highest: float, lowest: float | None) -> None:
        if highest > self.highest:
            self.highest = highest
        if lowest is not None and (self.lowest is None or lowest < self.lowest):
            self.lowest = lowest


class Window:
    """Measures the recent growth of totals between two looks; the first look only begins."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def look_at(self, meter: Meter, now_s: float) -> Look:
        """Returns the last half minute of ``meter``, whose ``highest`` nothing else may take."""
        highest, meter.highest = meter.highest, 0.0
        return self.look(now_s, meter.count, meter.total, highest)

    def look(
        self, now_s: float, count: float, total: float = 0.0, highest: float = 0.0, lowest: float | None = None
    ) -> Look:
        """Returns the last half minute. ``highest`` and ``lowest``: since the last look; None if there was nothing."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_s, count, total))
        samples[-1].widen(highest, lowest)
        if now_s - samples[-1].at_s >= _SAMPLE_EVERY_S:
            samples.append(_Sample(now_s, count, total))
            while len(samples) > 2 and now_s - samples[1].at_s >= WINDOW_S:
                samples.popleft()
        first = samples[0]
        elapsed_s, times, came_to = now_s - first.at_s, count - first.count, total - first.total
        if elapsed_s <= 0:
            return Look()
        highest = max([sample.highest for sample in samples])
        seen = [sample.lowest for sample in samples if sample.lowest is not None]
        average = came_to / times if times else 0.0
        return Look(times / elapsed_s, came_to / elapsed_s, average, highest, min(seen) if seen else 0.0)


@dataclass(frozen=True)
class Distribution:
    """Latencies as ``counts`` per bucket of ``LATENCY_BOUNDS_MS``, which are not cumulative."""

    counts: tuple[int, ...]
    total_ms: int


@dataclass(frozen=True)
class Sent:
    """The output of a sink: records, their bytes, and their ages in ms. ``latency_min_ms`` and ``latency_max_ms`` are
    those since the last request; None if nothing was sent."""

    records: int = 0
    bytes: int = 0
    latency: Distribution = Distribution((0,) * (len(LATENCY_BOUNDS_MS) + 1), 0)
    latency_min_ms: int | None = None
    latency_max_ms: int | None = None

    def __add__(self, later: Sent) -> Sent:
        """Returns the sums of both; the extremes are the later ones."""
        counts = tuple(map(sum, zip(self.latency.counts, later.latency.counts, strict=True)))
        latency = Distribution(counts, self.latency.total_ms + later.latency.total_ms)
        extremes = later.latency_min_ms, later.latency_max_ms
        return Sent(self.records + later.records, self.bytes + later.bytes, latency, *extremes)


class LatencyCounts:
    """Collects latencies. A negative one, by another machine's clock, counts as 0."""

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._total = 0
        self._lowest: int | None = None
        self._highest: int | None = None

    def add(self, latency_ms: int, times: int = 1) -> None:
        """Adds a latency ``times`` times."""
        latency_ms = max(0, latency_ms)
        self._counts[bisect_left(LATENCY_BOUNDS_MS, latency_ms)] += times
        self._total += latency_ms * times
        if self._lowest is None or latency_ms < self._lowest:
            self._lowest = latency_ms
        if self._highest is None or latency_ms > self._highest:
            self._highest = latency_ms

    def take(self, records: int, size: int) -> Sent:
        """Returns the totals so far, and the extremes since the last call."""
        sent = Sent(records, size, Distribution(tuple(self._counts), self._total), self._lowest, self._highest)
        self._lowest = self._highest = None
        return sent
