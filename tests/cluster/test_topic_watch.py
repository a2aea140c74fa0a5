"""Source topics that get partitions while the application runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pytest

from penstock.cluster.watchers.topic_watch import ONE_AFTER_ANOTHER_S, TopicWatch
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, InternalTopicError, MissingTopicError, TopologyError
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import RepartitionTopic, SinkNode, SourceNode, Subtopology, Topology
from tests.cluster.test_internal_topics import COUNTS, WORD_COUNT, chain

CONFIG = StreamsConfig.of({"application.id": "app"})
STATELESS = chain("x+y", "out", repartition={})
STATELESS = Topology(tuple(sub.__class__(sub.id, sub.nodes) for sub in STATELESS.subtopologies))
JOINED = Topology(STATELESS.subtopologies, {}, (frozenset({"x", "y"}),))


class Kafka:
    """Topics with their numbers of partitions, and a clock."""

    def __init__(self, topology: Topology, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.plan = plan_topics(topology, CONFIG, counts).tasks
        self.now = 0.0
        self.away = False
        self.clients = 0
        self.watch = TopicWatch(topology, CONFIG, self.client, lambda: self.now)

    def client(self) -> Kafka:
        self.clients += 1
        return self

    def topics(self) -> dict[str, int]:
        if self.away:
            raise BrokerUnreachableError("no broker answers")
        return self.counts

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        raise AssertionError("nothing is created while the application runs")

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        raise AssertionError("settings are compared at the start")

    def look(self, **counts: int) -> Mapping[TaskId, frozenset[TopicPartition]] | None:
        self.counts.update(counts)
        plan = self.watch.check(self.plan)
        return None if plan is None else plan.partitions


def test_a_source_topic_that_grows_has_more_tasks_and_one_that_does_not_needs_no_new_plan() -> None:
    kafka = Kafka(STATELESS, {"x": 2, "y": 1, "out": 1})
    assert kafka.look() is None
    assert kafka.look(out=5) is None
    assert kafka.look(x=3) == {
        TaskId(0, 0): frozenset({TopicPartition("x", 0), TopicPartition("y", 0)}),
        TaskId(0, 1): frozenset({TopicPartition("x", 1)}),
        TaskId(0, 2): frozenset({TopicPartition("x", 2)}),
    }


def test_a_topic_that_kafka_does_not_show_just_now_changes_nothing() -> None:
    kafka = Kafka(STATELESS, {"x": 2, "y": 1, "out": 1})
    assert kafka.look(x=0) is None
    del kafka.counts["x"]
    assert kafka.look() is None
    with pytest.raises(MissingTopicError):
        kafka.look(y=2)
    kafka.away = True
    with pytest.raises(BrokerUnreachableError):
        kafka.look()


def test_an_internal_topic_that_would_have_to_grow_is_an_error_that_names_it() -> None:
    kafka = Kafka(WORD_COUNT, {"lines": 2, "out": 1})
    kafka.counts |= {"app-words-repartition": 2, "app-counts-changelog": 2}
    assert kafka.look() is None
    with pytest.raises(InternalTopicError, match="'app-words-repartition' has 2 partitions, but the topology needs 3"):
        kafka.look(lines=3)


def test_topics_that_are_joined_may_grow_one_after_another_but_not_for_ever() -> None:
    kafka = Kafka(JOINED, {"x": 2, "y": 2, "out": 1})
    assert kafka.look(x=3) is None
    kafka.now += ONE_AFTER_ANOTHER_S - 1
    assert kafka.look() is None
    grown = kafka.look(y=3)
    assert grown is not None
    assert len(grown) == 3
    assert kafka.look(x=4) is None, "another change has time of its own"
    kafka.now += ONE_AFTER_ANOTHER_S
    with pytest.raises(TopologyError, match="'x' has 4, 'y' has 3"):
        kafka.look()


def by_pattern(*named: str) -> Topology:
    """Reads ``named``, and in another sub-topology what begins with ``x-``, into a repartition topic."""
    read = Subtopology(0, (SourceNode("named", named),)) if named else None
    pattern = SourceNode("pattern", (), pattern=re.compile("x-.*"))
    sink = SinkNode("to-counts", ("pattern",), "counts-repartition", internal=True)
    matched = Subtopology(len(named), (pattern, sink))
    last = SourceNode("from-counts", ("counts-repartition",), internal=True)
    counted = Subtopology(len(named) + 1, (last,), (COUNTS,))
    subs = (matched, counted) if read is None else (read, matched, counted)
    return Topology(subs, {"counts-repartition": RepartitionTopic("counts-repartition", None)})


def test_a_topic_of_a_pattern_that_is_gone_takes_what_reads_it_alone_along_and_comes_back_with_it() -> None:
    kafka = Kafka(by_pattern("a"), {"a": 1, "x-1": 1, "x-2": 3})
    kafka.counts |= {"app-counts-repartition": 3, "app-counts-changelog": 3}
    whole = kafka.plan
    del kafka.counts["x-2"]
    assert kafka.look() is None, "a broker may not know it for a moment"
    assert not kafka.watch.due(unplanned=False)
    kafka.now += 1
    assert kafka.watch.due(unplanned=False), "so it looks again soon"
    kafka.look(**{"x-2": 3})
    kafka.now += 1
    del kafka.counts["x-2"]
    assert kafka.look() is None, "it was there in between"
    kafka.now += 2
    left = kafka.look()
    assert left is not None
    assert left.keys() == {TaskId(0, 0), TaskId(1, 0), *(TaskId(2, number) for number in range(3))}
    assert left[TaskId(1, 0)] == {TopicPartition("x-1", 0)}
    kafka.plan = whole.without({"x-2"})
    assert kafka.look() is None, "and that is how it stays"
    assert kafka.look(**{"x-2": 3}) == whole.partitions


def test_the_last_topic_of_a_pattern_may_go_and_another_may_come() -> None:
    kafka = Kafka(by_pattern("a"), {"a": 1, "x-1": 2})
    kafka.counts |= {"app-counts-repartition": 2, "app-counts-changelog": 2}
    del kafka.counts["x-1"]
    kafka.look()
    kafka.now += 2
    left = kafka.look()
    assert left is not None
    assert {task.subtopology for task in left} == {0, 2}, "what stands in the repartition topic is still read"
    kafka.plan = kafka.plan.without({"x-1"})
    assert kafka.look() is None
    again = kafka.look(**{"x-3": 2})
    assert again is not None
    assert again[TaskId(1, 1)] == {TopicPartition("x-3", 1)}


def test_a_restarted_application_whose_pattern_matches_nothing_has_no_tasks_of_it() -> None:
    existing = {"a": 1, "app-counts-repartition": 2, "app-counts-changelog": 2}
    topology = by_pattern("a")
    with pytest.raises(MissingTopicError, match="no topic matches the pattern"):
        plan_topics(topology, CONFIG, existing)
    plan = plan_topics(topology, CONFIG, existing, none_may_match=True).tasks
    assert {task.subtopology for task in plan.partitions} == {0, 2}


def test_a_named_topic_that_is_gone_is_not_planned_away() -> None:
    kafka = Kafka(by_pattern("a"), {"a": 1, "x-1": 1})
    del kafka.counts["a"]
    for _ in range(5):
        assert kafka.look() is None
        kafka.now += 10


def test_a_named_topic_that_is_gone_is_reported_at_the_first_look_and_until_it_is_there_again() -> None:
    kafka = Kafka(by_pattern("a"), {"a": 1, "x-1": 1})
    kafka.counts |= {"app-counts-repartition": 1, "app-counts-changelog": 1}
    kafka.look()
    assert kafka.watch.missing is None
    kafka.now += 10
    assert kafka.watch.due(unplanned=False), "long before who reads it gives it up"
    del kafka.counts["a"], kafka.counts["x-1"]
    kafka.look()
    assert kafka.watch.missing is not None
    assert kafka.watch.missing.startswith("topic 'a' does not exist any more; "), "that of the pattern may go"
    del kafka.counts["app-counts-repartition"]
    kafka.look()
    assert kafka.watch.missing.startswith("topics 'a', 'app-counts-repartition' do not exist any more; ")
    kafka.now += 1
    assert kafka.watch.due(unplanned=False), "so it looks again soon"
    kafka.counts["app-counts-repartition"] = 1
    kafka.look(a=1)
    assert kafka.watch.missing is None


def test_a_deleted_changelog_is_reported_at_the_next_check_with_the_ways_out() -> None:
    kafka = Kafka(WORD_COUNT, {"lines": 1, "out": 1, "app-words-repartition": 1})
    kafka.look()
    assert kafka.watch.missing is None, "one that has never been there is not lost"
    kafka.counts["app-counts-changelog"] = 1
    kafka.look()
    del kafka.counts["app-counts-changelog"]
    kafka.look()
    message = kafka.watch.missing or ""
    assert message.startswith(
        "topic 'app-counts-changelog' does not exist any more; stop the application; do not create"
    )
    assert "backup" in message
    assert "penstock reset" in message
    kafka.look(**{"app-counts-changelog": 1})
    assert kafka.watch.missing is None


def test_topics_are_looked_at_once_when_the_group_gives_less_than_a_task_reads() -> None:
    kafka = Kafka(by_pattern(), {"x-1": 1, "x-2": 1})
    kafka.look()
    left = frozenset({TopicPartition("x-1", 0)})
    assert kafka.watch.due(unplanned=False, orphaned=left)
    kafka.look()
    assert not kafka.watch.due(unplanned=False, orphaned=left)
    assert kafka.watch.due(unplanned=False), "and again when it gives all"


def test_topics_are_looked_at_now_and_then_and_at_once_when_the_group_assigns_what_no_task_reads() -> None:
    kafka = Kafka(STATELESS, {"x": 2, "y": 1, "out": 1})
    assert kafka.watch.due(unplanned=False), "the first time"
    kafka.look()
    assert not kafka.watch.due(unplanned=False)
    assert kafka.watch.due(unplanned=True)
    kafka.now += 10
    assert kafka.watch.due(unplanned=False)
    kafka.away = True
    with pytest.raises(BrokerUnreachableError):
        kafka.look()
    assert not kafka.watch.due(unplanned=False), "a look that fails is one too"


def test_after_a_look_without_an_answer_another_client_asks() -> None:
    kafka = Kafka(STATELESS, {"x": 2, "y": 1, "out": 1})
    kafka.look()
    kafka.look()
    assert kafka.clients == 1
    kafka.away = True
    for _ in range(2):
        with pytest.raises(BrokerUnreachableError):
            kafka.look()
    assert kafka.clients == 2
    kafka.away = False
    assert kafka.look(x=3) is not None
    kafka.look()
    assert kafka.clients == 3
