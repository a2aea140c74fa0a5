"""An application's metrics through Ray's own Prometheus endpoint: one address for all that runs in a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from penstock.cluster.queries.metrics import MetricFamily, cumulated, prometheus_name, written

PUBLISH_EVERY_S = 5.0
"""Ray passes metrics on every 10 s (``metrics_report_interval_ms``)."""

_Series = tuple[str, tuple[str, ...]]
"""The name of a gauge, and the values of its tags."""


class Gauge(Protocol):
    """``ray.util.metrics.Gauge``."""

    def set(self, value: float, tags: dict[str, str], /) -> None:
        """Set the value of one series."""


MakeGauge = Callable[[str, str, tuple[str, ...]], Gauge]
"""(name, description, names of the tags)"""


def ray_gauge(name: str, description: str, tags: tuple[str, ...]) -> Gauge:
    """Returns one of Ray's gauges."""
    from ray.util.metrics import Gauge as RayGauge

    gauge: Gauge = RayGauge(name, description, tag_keys=tags)
    return gauge


class RayMetrics:
    """Hands families to Ray, whose endpoint shows them with ``ray_`` in front, and otherwise as ``/metrics`` does.

    All are gauges to Ray: it takes no histogram from outside, and a counter of its own would start again with each
    restart of the coordinator. ``rate()`` and ``histogram_quantile()`` work all the same.
    """

    def __init__(self, make: MakeGauge = ray_gauge) -> None:
        self._make = make
        self._gauges: dict[str, Gauge] = {}
        self._tags: dict[str, tuple[str, ...]] = {}
        self._shown: set[_Series] = set()

    def publish(self, families: Iterable[MetricFamily]) -> None:
        """Show these families alone: a series that was shown and is gone, such as a moved task's, is withdrawn."""
        shown: set[_Series] = set()
        for family in families:
            for name, tags, samples in _series(family):
                if name not in self._gauges:
                    self._gauges[name] = self._make(name, family.description, tags)
                    self._tags[name] = tags
                for values, number in samples:
                    self._set(name, values, number)
                    shown.add((name, values))
        for name, values in self._shown - shown:
            self._set(name, values, math.nan)  # which Ray does not show
        self._shown = shown

    def _set(self, name: str, values: tuple[str, ...], number: float) -> None:
        self._gauges[name].set(number, dict(zip(self._tags[name], values, strict=True)))


def _series(family: MetricFamily) -> Iterator[tuple[str, tuple[str, ...], list[tuple[tuple[str, ...], float]]]]:
    """Yields name, tags and samples: for a histogram, those of its buckets, its sum and its count."""
    name, tags = prometheus_name(family), tuple(map(written, family.tags))
    if not family.distributions:
        yield name, tags, [(tuple(values), number) for values, number in family.samples]
        return
    seen = [(tuple(values), distribution) for values, distribution in family.distributions]
    buckets = [((*values, end), number) for values, found in seen for end, number in cumulated(found)]
    yield f"{name}_bucket", (*tags, "le"), buckets
    yield f"{name}_sum", tags, [(values, float(found.total_ms)) for values, found in seen]
    yield f"{name}_count", tags, [(values, float(sum(found.counts))) for values, found in seen]
