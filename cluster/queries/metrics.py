"""The metrics of an application: Kafka Streams' names, groups and tags, out of one status. No Ray here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from penstock.actors.status import TaskState
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.measures import LATENCY_BOUNDS_MS, Distribution
from penstock.common.metric_names import KINDS, TAGS, TASK, THREAD, UPDATER

# KIP-1091 shows a state as a number: its index in KafkaStreams.State.
CLIENT_STATES = {
    ApplicationState.CREATED: 0,
    ApplicationState.REBALANCING: 1,
    ApplicationState.RUNNING: 2,
    ApplicationState.PENDING_SHUTDOWN: 3,
    ApplicationState.NOT_RUNNING: 4,
    ApplicationState.PENDING_ERROR: 5,
    ApplicationState.ERROR: 6,
}

_GLOBAL_TASK = "-1_-1"
"""Kafka Streams' name for the task that keeps the global stores."""

_Samples = Sequence[tuple[Sequence[str], float]]
_Ages = Sequence[tuple[Sequence[str], Distribution]]


@dataclass(frozen=True)
class MetricName:
    """The name of a metric, such as ``process-total`` of group ``stream-task-metrics`` with the tags
    ``application-id``, ``thread-id`` (a stream actor) and ``task-id``. Mirrors ``MetricName``.

    The description does not count in comparisons.
    """

    name: str
    group: str
    tags: Mapping[str, str]
    description: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash((self.name, self.group, frozenset(self.tags.items())))


@dataclass(frozen=True)
class MetricFamily:
    """All metrics of one name. ``tags`` are the tags' names; each sample has their values and a number. A counter only
    grows while its actor lives. A histogram has ``distributions`` in place of samples."""

    group: str
    name: str
    description: str
    tags: Sequence[str]
    samples: _Samples
    counter: bool = False
    distributions: _Ages = ()


def metrics_of(status: ApplicationStatus) -> dict[MetricName, float]:
    """Returns every metric with its value, as of ``status``. Histograms are left out: they have no single value."""
    return {
        MetricName(family.name, family.group, dict(zip(family.tags, values, strict=True)), family.description): number
        for family in metric_families(status)
        for values, number in family.samples
    }


def metric_families(status: ApplicationStatus) -> Iterator[MetricFamily]:
    """Yields the metrics of client, threads, tasks and source partitions, then all that actors measure."""
    yield from _client(status)
    yield from _threads(status)
    yield from _tasks(status)
    yield from _partitions(status)
    yield from _measured(status)


def _client(status: ApplicationStatus) -> Iterator[MetricFamily]:
    failed = sum(actor.error is not None for actor in status.actors)
    states = ", ".join(f"{number} {state.value}" for state, number in CLIENT_STATES.items())
    for name, what, number in (
        ("client-state", f"State of the application: {states}", CLIENT_STATES[status.state]),
        ("alive-stream-threads", "Stream actors that run", len(status.actors) - failed),
        ("failed-stream-threads", "Stream actors whose loop ended with an error", failed),
        ("stuck-tasks", "Tasks that lag and have processed nothing for long", len(status.stuck)),
        ("unhosted-tasks", "Tasks that no stream actor has", len(status.unhosted)),
        ("paused", "1 while tasks are kept from processing by pause, else 0", status.paused),
        ("broker-unreachable", "1 while no broker answers or lets the application in", status.health.no_broker),
        ("missing-brokers", "Brokers with replicas of the topics that are away", len(status.health.brokers.missing)),
        (
            "leaderless-partitions",
            "Partitions of the application's topics that have no leader",
            len(status.health.brokers.without_leader),
        ),
        ("session-lost", "1 while the session in the consumer group is lost", status.health.no_session),
        (
            "missing-topic",
            "1 while a topic that the application needs does not exist",
            status.missing_topic is not None,
        ),
        ("waiting-for-cpus", "Stream actors that wait for a free CPU", status.health.waiting_for_cpus),
        ("unfit-nodes", "Nodes that get no stream actors because their disk fails", status.health.unfit_nodes),
    ):
        samples = [([status.application_id], float(number))]
        yield MetricFamily("stream-metrics", name, what, ["application-id"], samples)


def _threads(status: ApplicationStatus) -> Iterator[MetricFamily]:
    actors = [([status.application_id, actor.actor_id], actor) for actor in status.actors]
    tags = ["application-id", "thread-id"]
    commits: _Samples = [(values, actor.commits) for values, actor in actors]
    restoring: _Samples = [
        (values, sum(task.state is TaskState.RESTORING for task in actor.tasks)) for values, actor in actors
    ]
    yield MetricFamily(THREAD, "commit-total", "Commits", tags, commits, counter=True)
    for name, what, field_name in (
        ("commit-latency-avg", "Average time of a commit", "latency_avg_ms"),
        ("commit-latency-max", "Longest time of a commit", "latency_max_ms"),
        ("commit-stop-avg", "Average time for which a commit kept records waiting", "per_commit_avg_ms"),
        ("commit-stop-max", "Longest time for which a commit kept records waiting", "per_commit_max_ms"),
    ):
        times: _Samples = [(values, getattr(actor.commit_stops, field_name)) for values, actor in actors]
        yield MetricFamily(THREAD, name, f"{what}, of the last 1000, in ms", tags, times)
    without: _Samples = [(values, int(actor.without_lease)) for values, actor in actors]
    yield MetricFamily(THREAD, "without-lease", "1 while the actor's lease is over, else 0", tags, without)
    expired: _Samples = [(values, actor.lease_expirations) for values, actor in actors]
    yield MetricFamily(THREAD, "lease-expired-total", "Leases that have ended", tags, expired, counter=True)
    ages: _Samples = [([status.application_id, name], age * 1000) for name, age in status.health.report_ages_s.items()]
    yield MetricFamily(THREAD, "report-age-ms", "Time since the actor gave its status, in ms", tags, ages)
    yield MetricFamily(UPDATER, "active-restoring-tasks", "Tasks that restore", tags, restoring)
    paused: _Samples = [(values, len(actor.tasks) if actor.paused else 0) for values, actor in actors]
    yield MetricFamily(UPDATER, "active-paused-tasks", "Tasks that are paused", tags, paused)
    following: _Samples = [(values, len(actor.standbys)) for values, actor in actors]
    yield MetricFamily(UPDATER, "standby-updating-tasks", "Standbys that follow their changelogs", tags, following)


def _tasks(status: ApplicationStatus) -> Iterator[MetricFamily]:
    app, group = status.application_id, TASK
    tags = ["application-id", "thread-id", "task-id"]
    tasks = [([app, actor.actor_id, str(task.task_id)], task) for actor in status.actors for task in actor.tasks]
    processed: _Samples = [(values, task.records_processed) for values, task in tasks]
    dropped: list[tuple[Sequence[str], float]] = [(values, task.dropped_records) for values, task in tasks]
    dropped += [
        ([app, actor.actor_id, _GLOBAL_TASK], actor.global_dropped_records)
        for actor in status.actors
        if actor.global_dropped_records is not None
    ]
    remaining: _Samples = [(values, task.restore_remaining) for values, task in tasks]
    yield MetricFamily(group, "process-total", "Records processed", tags, processed, counter=True)
    yield MetricFamily(group, "dropped-records-total", "Records dropped", tags, dropped, counter=True)
    lost: _Samples = [(values, task.lost_records) for values, task in tasks]
    what = "Records that retention deleted before they were read, in offsets"
    yield MetricFamily(group, "lost-records-total", what, tags, lost, counter=True)
    name, what = "restore-remaining-records-total", "Changelog records still to restore"
    yield MetricFamily(group, name, what, tags, remaining)
    restored: _Samples = [(values, task.restore_total) for values, task in tasks]
    rates: _Samples = [(values, task.restore_rate) for values, task in tasks]
    yield MetricFamily(group, "restore-total", "Changelog records restored", tags, restored, counter=True)
    yield MetricFamily(group, "restore-rate", "Changelog records restored per second, recently", tags, rates)
    yield from _standbys(status)


def _standbys(status: ApplicationStatus) -> Iterator[MetricFamily]:
    tags = ["application-id", "thread-id", "task-id"]
    standbys = [
        ([status.application_id, actor.actor_id, str(standby.task_id)], standby)
        for actor in status.actors
        for standby in actor.standbys
    ]
    updated: _Samples = [(values, standby.restored) for values, standby in standbys]
    lags: _Samples = [(values, standby.lag) for values, standby in standbys]
    what = "Changelog records that the standby has taken in"
    yield MetricFamily(TASK, "update-total", what, tags, updated, counter=True)
    yield MetricFamily(TASK, "standby-lag", "Offsets of the changelogs that the standby lacks", tags, lags)


def _partitions(status: ApplicationStatus) -> Iterator[MetricFamily]:
    lags: _Samples = [
        ([status.application_id, actor.actor_id, str(task.task_id), at.topic, str(at.partition)], lag)
        for actor in status.actors
        for task in actor.tasks
        for at, lag in task.lags.items()
    ]
    tags = ["application-id", "thread-id", "task-id", "topic", "partition"]
    what = "Records between position and end"
    yield MetricFamily("consumer-fetch-manager-metrics", "records-lag", what, tags, lags)


def _measured(status: ApplicationStatus) -> Iterator[MetricFamily]:
    """Yields what :mod:`~penstock.common.metric_names` lists, if there is any of it."""
    numbers: dict[tuple[str, str], list[tuple[Sequence[str], float]]] = {}
    ages: dict[tuple[str, str], list[tuple[Sequence[str], Distribution]]] = {}
    for actor in status.actors:
        thread = [status.application_id, actor.actor_id]
        tagged = [(thread, actor.measured)] + [([*thread, str(it.task_id)], it.measured) for it in actor.tasks]
        for values, measured in tagged:
            for (group, name, *more), value in measured.items():
                if isinstance(value, Distribution):
                    ages.setdefault((group, name), []).append(([*values, *more], value))
                else:
                    numbers.setdefault((group, name), []).append(([*values, *more], value))
    for kind in KINDS:
        found = kind.group, kind.name
        tags = ["application-id", "thread-id", *TAGS[kind.group]]
        if found in numbers or found in ages:
            samples, distributions = numbers.get(found, ()), ages.get(found, ())
            yield MetricFamily(*found, kind.description, tags, samples, kind.counter, distributions)


def prometheus_name(family: MetricFamily) -> str:
    """``stream-task-metrics: dropped-records-total`` is ``kafka_streams_stream_task_dropped_records_total``. Prometheus
    keeps ``_total`` for counters: a gauge that Kafka Streams calls so loses it."""
    group = family.group.removesuffix("-metrics")
    library = "kafka" if group.startswith("consumer-") else "kafka-streams"
    name = family.name if family.counter else family.name.removesuffix("-total")
    return written(f"{library}-{group}-{name}")


def written(name: str) -> str:
    """Returns a name as Prometheus wants those of metrics and labels."""
    return name.replace("-", "_")


def cumulated(distribution: Distribution) -> Iterator[tuple[str, float]]:
    """Returns the buckets of a histogram as Prometheus wants them: (upper end, how many are not above it)."""
    ends = [*(str(float(bound)) for bound in LATENCY_BOUNDS_MS), "+Inf"]
    return zip(ends, accumulate(distribution.counts), strict=True)
