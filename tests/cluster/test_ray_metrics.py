"""The metrics that are passed to Ray's endpoint."""

from __future__ import annotations

import math

from penstock.cluster.coordinator_shell.ray_metrics import RayMetrics
from penstock.cluster.queries.metrics import MetricFamily
from penstock.common.measures import LATENCY_BOUNDS_MS, Distribution

Series = tuple[str, frozenset[tuple[str, str]]]


class Gauges:
    """Stands in for Ray: the value to which each series was set last."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.values: dict[Series, float] = {}

    def make(self, name: str, description: str, tags: tuple[str, ...]) -> _Gauge:
        self.made.append((name, tags))
        return _Gauge(self, name)

    def value(self, name: str, **tags: str) -> float:
        return self.values[name, frozenset(tags.items())]


class _Gauge:
    def __init__(self, gauges: Gauges, name: str) -> None:
        self._gauges, self._name = gauges, name

    def set(self, value: float, tags: dict[str, str], /) -> None:
        self._gauges.values[self._name, frozenset(tags.items())] = value


def lag(**by_task: int) -> MetricFamily:
    samples = [([task], float(number)) for task, number in by_task.items()]
    return MetricFamily("stream-task-metrics", "some-lag", "Lag", ["task-id"], samples)


LAG = "kafka_streams_stream_task_some_lag"


def test_each_name_is_made_once_with_its_labels_and_set_each_time() -> None:
    gauges = Gauges()
    metrics = RayMetrics(gauges.make)
    metrics.publish([lag(a=3)])
    metrics.publish([lag(a=4)])
    assert gauges.made == [(LAG, ("task_id",))]
    assert gauges.value(LAG, task_id="a") == 4


def test_a_series_that_has_ended_is_set_to_nan_once() -> None:
    gauges = Gauges()
    metrics = RayMetrics(gauges.make)
    metrics.publish([lag(a=3, b=5)])
    metrics.publish([lag(b=6)])
    assert math.isnan(gauges.value(LAG, task_id="a"))
    assert gauges.value(LAG, task_id="b") == 6
    gauges.values.clear()
    metrics.publish([lag(b=6)])
    assert len(gauges.values) == 1
    metrics.publish([])
    assert math.isnan(gauges.value(LAG, task_id="b"))


def test_a_histogram_is_its_buckets_its_sum_and_its_count() -> None:
    gauges = Gauges()
    counts = (2, 1, *[0] * (len(LATENCY_BOUNDS_MS) - 2), 4)
    family = MetricFamily("g-metrics", "age", "Age", ["node"], (), distributions=[(["out"], Distribution(counts, 90))])
    RayMetrics(gauges.make).publish([family])
    name = "kafka_streams_g_age"
    assert gauges.value(f"{name}_bucket", node="out", le="5.0") == 2
    assert gauges.value(f"{name}_bucket", node="out", le="10.0") == 3
    assert gauges.value(f"{name}_bucket", node="out", le="1800000.0") == 3
    assert gauges.value(f"{name}_bucket", node="out", le="+Inf") == 7
    assert (gauges.value(f"{name}_sum", node="out"), gauges.value(f"{name}_count", node="out")) == (90, 7)
