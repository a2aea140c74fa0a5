"""Metrics for Prometheus: Kafka Streams' names, ``stream-task-metrics: dropped-records-total`` written
``kafka_streams_stream_task_dropped_records_total``, its tags as labels (a stream actor is the ``thread_id``).
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from penstock.cluster.queries.metrics import MetricFamily, cumulated, metric_families, prometheus_name, written
from penstock.cluster.read_side import ApplicationStatus

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def exposition(status: ApplicationStatus) -> bytes:
    """The text of ``GET /metrics`` for one status."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ApplicationCollector(status))
    return generate_latest(registry)


class ApplicationCollector(Collector):
    """One status of an application as metric families."""

    def __init__(self, status: ApplicationStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        return map(_for_prometheus, metric_families(self._status))


def _for_prometheus(family: MetricFamily) -> Metric:
    name, labels = prometheus_name(family), [written(tag) for tag in family.tags]
    if family.distributions:
        return _histogram(name, family, labels)
    # A counter's family is called without the suffix: prometheus-client adds _total to the samples.
    kind = CounterMetricFamily if family.counter else GaugeMetricFamily
    made = kind(name.removesuffix("_total") if family.counter else name, family.description, labels=labels)
    for values, number in family.samples:
        made.add_metric(values, number)
    return made


def _histogram(name: str, family: MetricFamily, labels: list[str]) -> Metric:
    made = HistogramMetricFamily(name, family.description, labels=labels)
    for values, distribution in family.distributions:
        made.add_metric(values, list(cumulated(distribution)), distribution.total_ms)
    return made
