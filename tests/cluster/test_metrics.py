"""Metrics as a mapping: Kafka Streams' names, groups and tags."""

from __future__ import annotations

import pickle
from dataclasses import replace

from penstock.actors.status import StandbyStatus
from penstock.cluster.health import Health
from penstock.cluster.missing_brokers import BrokerLosses, MissingBroker
from penstock.cluster.queries.metrics import MetricName, metrics_of
from penstock.common.ids import TaskId, TopicPartition
from tests.api.fake import STATUS

TASK = {"application-id": "word-count", "thread-id": "actor-1", "task-id": "1_0"}


def test_every_metric_has_the_name_the_group_and_the_tags_of_kafka_streams() -> None:
    found = metrics_of(STATUS)
    client, thread = {"application-id": "word-count"}, {"application-id": "word-count", "thread-id": "actor-1"}
    partition = {**TASK, "topic": "word-count-counts-repartition", "partition": "0"}
    assert found[MetricName("client-state", "stream-metrics", client)] == 2
    assert found[MetricName("alive-stream-threads", "stream-metrics", client)] == 1
    assert found[MetricName("failed-stream-threads", "stream-metrics", client)] == 0
    assert found[MetricName("commit-total", "stream-thread-metrics", thread)] == 7
    assert found[MetricName("commit-latency-avg", "stream-thread-metrics", thread)] == 8.5
    assert found[MetricName("commit-latency-max", "stream-thread-metrics", thread)] == 12.25
    assert found[MetricName("commit-stop-avg", "stream-thread-metrics", thread)] == 0.5
    assert found[MetricName("commit-stop-max", "stream-thread-metrics", thread)] == 1.25
    assert found[MetricName("active-restoring-tasks", "stream-state-updater-metrics", thread)] == 1
    assert found[MetricName("process-total", "stream-task-metrics", TASK)] == 120
    assert found[MetricName("dropped-records-total", "stream-task-metrics", TASK)] == 2
    remaining = MetricName("restore-remaining-records-total", "stream-task-metrics", {**TASK, "task-id": "0_0"})
    assert found[remaining] == 9
    restoring = {**TASK, "task-id": "0_0"}
    assert found[MetricName("restore-total", "stream-task-metrics", restoring)] == 30
    assert found[MetricName("restore-rate", "stream-task-metrics", restoring)] == 6
    assert found[MetricName("records-lag", "consumer-fetch-manager-metrics", partition)] == 5
    assert all(name.description for name in found)


def test_an_actor_without_a_lease_is_counted() -> None:
    (actor,) = STATUS.actors
    expired = replace(actor, without_lease=True, lease_expirations=3)
    thread = {"application-id": "word-count", "thread-id": "actor-1"}
    names = [MetricName(name, "stream-thread-metrics", thread) for name in ("without-lease", "lease-expired-total")]
    before, found = metrics_of(STATUS), metrics_of(replace(STATUS, actors=(expired,)))
    assert [before[name] for name in names] == [0, 0]
    assert [found[name] for name in names] == [1, 3]


def test_standbys_and_paused_tasks_are_counted_by_kafka_streams_names() -> None:
    (actor,) = STATUS.actors
    keeps = replace(actor, paused=True, standbys=(StandbyStatus(TaskId(0, 1), 12, 30),))
    found = metrics_of(replace(STATUS, actors=(keeps,)))
    thread = {"application-id": "word-count", "thread-id": "actor-1"}
    standby = {**thread, "task-id": "0_1"}
    assert found[MetricName("standby-updating-tasks", "stream-state-updater-metrics", thread)] == 1
    assert found[MetricName("active-paused-tasks", "stream-state-updater-metrics", thread)] == 2
    assert found[MetricName("update-total", "stream-task-metrics", standby)] == 30
    assert found[MetricName("standby-lag", "stream-task-metrics", standby)] == 12


def test_a_name_is_equal_to_another_whatever_the_order_of_its_tags_and_its_description() -> None:
    one = MetricName("process-total", "stream-task-metrics", TASK, "Records processed")
    other = MetricName("process-total", "stream-task-metrics", dict(reversed(TASK.items())))
    assert (one, hash(one)) == (other, hash(other))
    assert one != MetricName("process-total", "stream-task-metrics", {**TASK, "task-id": "1_1"})
    assert pickle.loads(pickle.dumps(one)) == one


def test_the_conditions_that_alerts_use_are_among_the_metrics() -> None:
    client = {"application-id": "word-count"}
    conditions = ["paused", "missing-topic", "broker-unreachable", "session-lost", "waiting-for-cpus", "unfit-nodes"]
    conditions += ["unhosted-tasks", "missing-brokers", "leaderless-partitions"]
    names = [MetricName(name, "stream-metrics", client) for name in conditions]
    age = MetricName("report-age-ms", "stream-thread-metrics", {**client, "thread-id": "actor-1"})
    well = metrics_of(replace(STATUS, health=Health(report_ages_s={"actor-1": 0.25})))
    assert [well[name] for name in names] == [0] * 9
    assert well[age] == 250
    away = MissingBroker(2, "two:9092", 1_000, (TopicPartition("words", 0),), (TopicPartition("counts", 0),))
    health = Health({}, True, True, 3, 2, BrokerLosses((away,), leaderless=(TopicPartition("words", 1),)))
    trouble = replace(STATUS, paused=True, missing_topic="gone", unhosted={TaskId(0, 2): "starts"}, health=health)
    assert [metrics_of(trouble)[name] for name in names] == [1, 1, 1, 1, 3, 2, 1, 1, 2]
