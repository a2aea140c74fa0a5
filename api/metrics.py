"""Metrics for Prometheus: Kafka Streams' names, ``stream-task-metrics: dropped-records-total`` written
``kafka_streams_stream_task_dropped_records_total``, its tags as labels (a stream actor is the ``thread_id``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from penstock.cluster.read_side import ApplicationState, ApplicationStatus, TaskState

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4

# KIP-1091 shows a state as a number: its place in KafkaStreams.State.
CLIENT_STATES = {
    ApplicationState.CREATED: 0,
    ApplicationState.REBALANCING: 1,
    ApplicationState.RUNNING: 2,
    ApplicationState.PENDING_SHUTDOWN: 3,
    ApplicationState.NOT_RUNNING: 4,
    ApplicationState.PENDING_ERROR: 5,
    ApplicationState.ERROR: 6,
}


_Samples = Sequence[tuple[Sequence[str], int]]


def exposition(status: ApplicationStatus) -> bytes:
    """The text of ``GET /metrics`` for one snapshot."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ApplicationCollector(status))
    return generate_latest(registry)


class ApplicationCollector(Collector):
    """One snapshot of an application as metric families."""

    def __init__(self, status: ApplicationStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Client, threads, tasks, then source partitions."""
        yield from self._client()
        yield from self._threads()
        yield from self._tasks()
        yield from self._partitions()

    def _client(self) -> Iterator[Metric]:
        status = self._status
        failed = sum(actor.error is not None for actor in status.actors)
        states = ", ".join(f"{number} {state.value}" for state, number in CLIENT_STATES.items())
        for name, what, number in (
            ("client_state", f"State of the application: {states}", CLIENT_STATES[status.state]),
            ("alive_stream_threads", "Stream actors that run", len(status.actors) - failed),
            ("failed_stream_threads", "Stream actors whose loop ended with an error", failed),
        ):
            yield _gauge(f"kafka_streams_stream_{name}", what, [], [([status.application_id], number)])

    def _threads(self) -> Iterator[Metric]:
        actors = [([self._status.application_id, actor.actor_id], actor) for actor in self._status.actors]
        commits: _Samples = [(values, actor.commits) for values, actor in actors]
        restoring: _Samples = [
            (values, sum(task.state is TaskState.RESTORING for task in actor.tasks)) for values, actor in actors
        ]
        labels = ["thread_id"]
        yield _counter("kafka_streams_stream_thread_commit", "Commits", labels, commits)
        name = "kafka_streams_stream_state_updater_active_restoring_tasks"
        yield _gauge(name, "Tasks that restore", labels, restoring)

    def _tasks(self) -> Iterator[Metric]:
        app, labels = self._status.application_id, ["thread_id", "task_id"]
        tasks = [
            ([app, actor.actor_id, str(task.task_id)], task) for actor in self._status.actors for task in actor.tasks
        ]
        processed: _Samples = [(values, task.records_processed) for values, task in tasks]
        dropped: _Samples = [(values, task.dropped_records) for values, task in tasks]
        remaining: _Samples = [(values, task.restore_remaining) for values, task in tasks]
        lost: _Samples = [(values, task.lost_records) for values, task in tasks]
        yield _counter("kafka_streams_stream_task_process", "Records processed", labels, processed)
        yield _counter("kafka_streams_stream_task_dropped_records", "Records dropped", labels, dropped)
        what = "Records that retention deleted before they were read, in offsets"
        yield _counter("kafka_streams_stream_task_lost_records", what, labels, lost)
        name = "kafka_streams_stream_task_restore_remaining_records_total"
        yield _gauge(name, "Changelog records still to restore", labels, remaining)

    def _partitions(self) -> Iterator[Metric]:
        app = self._status.application_id
        lags: _Samples = [
            ([app, actor.actor_id, str(task.task_id), at.topic, str(at.partition)], lag)
            for actor in self._status.actors
            for task in actor.tasks
            for at, lag in task.lags.items()
        ]
        labels = ["thread_id", "task_id", "topic", "partition"]
        name = "kafka_consumer_fetch_manager_records_lag"
        yield _gauge(name, "Records between position and end", labels, lags)


def _gauge(name: str, what: str, labels: Sequence[str], samples: _Samples) -> Metric:
    family = GaugeMetricFamily(name, what, labels=["application_id", *labels])
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, what: str, labels: Sequence[str], samples: _Samples) -> Metric:
    # The family's name is without the suffix: prometheus-client adds _total to the samples.
    family = CounterMetricFamily(name, what, labels=["application_id", *labels])
    for values, number in samples:
        family.add_metric(values, number)
    return family
