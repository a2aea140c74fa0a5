"""The findings that lead to a missing broker, a hot key, and a slow operator of which only some tasks have figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.actors.status import ActorStatus, TaskStatus
from penstock.cluster.findings import Level, findings
from penstock.cluster.health import Health
from penstock.cluster.missing_brokers import BrokerLosses, MissingBroker
from penstock.cluster.read_side import ApplicationStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, TASK, Measured
from tests.cluster.test_findings import actor, application, task


def at(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def with_losses(*missing: MissingBroker, leaderless: tuple[TopicPartition, ...] = ()) -> ApplicationStatus:
    counts = (("in", 4), ("out", 6), ("app-sums-changelog", 4))
    status = application(actor("one", *(task(number) for number in range(4))))
    return replace(status, health=Health(brokers=BrokerLosses(missing, counts, leaderless)))


def test_a_missing_broker_is_a_fault_that_names_partitions_without_a_leader_and_the_tasks_that_wait() -> None:
    away = MissingBroker(2, "kafka-2:9092", 1_000, at("in", 1, 3) + at("out", 5), at("app-sums-changelog", 0))
    found = findings(with_losses(away))[0]
    assert (found.level, found.about, found.view, found.subject) == (Level.FAULT, "broker 2", "topology", "in")
    assert found.sentence == (
        "Broker 2 (kafka-2:9092) is away: 2 of 4 partitions of topic in, 1 of 6 partitions of topic out have no "
        "leader, so nothing reads or writes them: tasks 0_1, 0_3 wait: start the broker again"
    )


def test_a_missing_broker_whose_partitions_are_led_by_others_is_a_warning() -> None:
    away = MissingBroker(2, None, 1_000, (), at("app-sums-changelog", 0, 1, 2) + at("in", 0))
    found = findings(with_losses(away))[0]
    assert (found.level, found.subject) == (Level.WARNING, "in")
    assert found.sentence == (
        "Broker 2 is away: 4 partitions of 2 topics have fewer replicas than they should have; other brokers lead them"
    )
    one = MissingBroker(2, None, 1_000, (), at("in", 0))
    assert "1 partition of topic in has fewer replicas than it should have" in findings(with_losses(one))[0].sentence


def test_a_partition_without_a_leader_whose_brokers_are_there_is_a_fault() -> None:
    found = findings(with_losses(leaderless=at("in", 2)))[0]
    assert (found.level, found.about) == (Level.FAULT, "leaderless")
    assert found.sentence == (
        "1 of 4 partitions of topic in has no leader, so nothing reads or writes it: task 0_2 waits"
    )


@pytest.mark.parametrize(("count", "ends"), [(6, "0_3, 0_4, 0_5 wait"), (7, "0_3, 0_4, 0_5 … wait")])
def test_no_more_than_six_waiting_tasks_are_named(count: int, ends: str) -> None:
    status = application(actor("one", *(task(number) for number in range(8))))
    found = findings(replace(status, health=Health(brokers=BrokerLosses((), (), at("in", *range(count))))))[0]
    assert found.sentence.endswith(ends)


@pytest.mark.parametrize(
    ("count", "others"), [(3, ""), (4, " and some of 1 other topic"), (5, " and some of 2 other topics")]
)
def test_no_more_than_three_topics_without_a_leader_are_named(count: int, others: str) -> None:
    topics = sum((at(f"topic-{number}", 0) for number in range(count)), ())
    found = findings(with_losses(leaderless=topics))[0]
    named = ", ".join(f"1 of 1 partition of topic topic-{number}" for number in range(3))
    have = f"{named}{others} have no leader, so nothing reads or writes them"
    assert found.sentence == have


def test_a_fault_comes_before_the_warning_of_a_broker_that_others_replace() -> None:
    away = MissingBroker(2, None, 1_000, (), at("in", 0))
    found = findings(replace(with_losses(away), unhosted={TaskId(0, 9): "it starts"}))
    assert [each.about for each in found] == ["unhosted 0_9", "broker 2"]


def hot_task() -> ApplicationStatus:
    hot = task(3, lag=9_000, behind_s=41.0, busy=0.97, records_processed=40_000)
    others = [
        replace(task(number), records_processed=2_000, measured={(TASK, "process-rate"): 20.0}) for number in range(3)
    ]
    return application(actor("one", hot, busy=0.98), actor("two", *others))


def test_a_task_with_most_records_of_its_sub_topology_leads_to_the_keys_of_its_partition() -> None:
    found = findings(hot_task())[0]
    assert (found.about, found.view, found.subject) == ("behind", "records", "in/3")
    assert found.sentence == (
        "1 of 4 tasks is behind by 41 s: task 0_3 processes 94% of the records of its sub-topology, and has 100% of "
        "those that wait: look at its keys"
    )
    assert "look at its keys" not in findings(replace(hot_task(), paused=True))[0].sentence


def half_measured(known_busy: float) -> ActorStatus:
    """An actor with two tasks of the same load, of one of which the operators have no figures."""

    def late(number: int) -> TaskStatus:
        return task(number, lag=9, behind_s=41.0, busy=known_busy if number == 0 else 0.96 - known_busy)

    measured: Measured = {(NODE, "busy-ratio", "enrich"): 0.96 * known_busy, (NODE, "busy-ratio", "price"): 0.01}
    first = late(0)
    return actor("one", replace(first, measured={**first.measured, **measured}), late(1), busy=0.97)


def test_an_operator_is_named_by_the_tasks_that_have_figures() -> None:
    found = findings(application(half_measured(0.48)))[0]
    assert (found.view, found.subject) == ("topology", "enrich")
    assert "one is busy 97%, 46% of its time in enrich, with 2 tasks" in found.sentence


def test_tasks_that_take_little_of_the_time_do_not_tell_which_operator_takes_it() -> None:
    found = findings(application(half_measured(0.1)))[0]
    assert (found.view, found.subject) == ("tasks", "0_0")
