"""Streams of all topics whose names match a pattern: in the driver, in the plan, and in the programs of tasks."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.cluster.watchers.topic_watch import TopicWatch
from penstock.common.config import StreamsConfig
from penstock.common.errors import MissingTopicError, StreamsError, TopologyError
from penstock.common.ids import TaskId, TopicPartition
from penstock.tasks.program import TaskPrograms
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology

TEXT = ps.Serdes.string()
TEXTS: ps.Consumed[str, str] = ps.Consumed.with_(TEXT, TEXT)
OUT = ps.Produced.with_(TEXT, TEXT)
CONFIG = StreamsConfig.of({"application.id": "app"})
ORDERS = re.compile("orders-.*")


def built(program: Callable[[ps.StreamsBuilder], Any]) -> Topology:
    builder = ps.StreamsBuilder()
    program(builder)
    return builder.build()


def copy(builder: ps.StreamsBuilder) -> None:
    builder.stream(ORDERS, TEXTS).to("out", OUT)


def joined(builder: ps.StreamsBuilder) -> None:
    orders = builder.stream(ORDERS, TEXTS)
    orders.join(builder.table("users", TEXTS), lambda order, user: order + user).to("out", OUT)


def test_the_description_has_the_pattern_as_kafka_streams_has_it() -> None:
    assert built(copy).describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: orders-.*)\n"
        "      --> KSTREAM-SINK-0000000001\n"
        "    Sink: KSTREAM-SINK-0000000001 (topic: out)\n"
        "      <-- KSTREAM-SOURCE-0000000000\n\n"
    )


def test_in_the_driver_every_topic_that_matches_can_be_piped_into() -> None:
    with ps.TopologyTestDriver(built(copy)) as driver:
        for topic in ("orders-a", "orders-b", "orders-a"):
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input("k", topic, 5)
        out = driver.create_output_topic("out", TEXT, TEXT)
        assert [record.value for record in out.read_records_to_list()] == ["orders-a", "orders-b", "orders-a"]
        for other in ("order-a", "my-orders-a"):
            with pytest.raises(StreamsError, match=rf"reads no topic '{other}'; it reads:.*those that match 'orders"):
                driver.create_input_topic(other, TEXT, TEXT)


def test_records_of_such_a_topic_know_where_they_come_from_and_reach_stores() -> None:
    def program(builder: ps.StreamsBuilder) -> None:
        stream = builder.stream(ORDERS, TEXTS)
        stream.to(lambda key, value, context: f"from-{context.topic}-{context.offset}", OUT)
        stream.group_by_key(ps.Grouped.with_(TEXT, TEXT)).count(ps.Materialized.as_("counts"))

    with ps.TopologyTestDriver(built(program)) as driver:
        for topic in ("orders-a", "orders-b", "orders-b"):
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input("k", "v", 5)
        assert {name for name in driver.produced_topic_names() if name.startswith("from")} == {
            "from-orders-a-0", "from-orders-b-0", "from-orders-b-1"
        }  # fmt: skip
        assert driver.get_key_value_store("counts").get("k") == 3


def test_the_plan_has_what_matches_and_no_topic_of_kafkas_or_of_the_applications_own() -> None:
    def program(builder: ps.StreamsBuilder) -> None:
        builder.stream(re.compile(".*"), TEXTS).group_by_key(ps.Grouped.with_(TEXT, TEXT)).count(
            ps.Materialized.as_("c")
        )

    there = {"a": 2, "b": 3, "app-c-changelog": 3, "other-c-changelog": 1, "__consumer_offsets": 50}
    plan = plan_topics(built(program), CONFIG, there)
    assert plan.tasks.topics == ("a", "b", "other-c-changelog")
    assert plan.tasks.partitions[TaskId(0, 2)] == frozenset({TopicPartition("b", 2)})
    assert [(topic.name, topic.partitions) for topic in plan.internal] == [("app-c-changelog", 3)]


def test_an_application_whose_pattern_matches_no_topic_cannot_start() -> None:
    with pytest.raises(MissingTopicError, match=r"no topic matches the pattern 'orders-\.\*'"):
        plan_topics(built(copy), CONFIG, {"order": 1, "out": 1})


def test_every_topic_that_matches_must_have_as_many_partitions_as_what_it_is_joined_with() -> None:
    topology = built(joined)
    plan_topics(topology, CONFIG, {"orders-a": 3, "orders-b": 3, "users": 3, "out": 1})
    with pytest.raises(TopologyError, match="'orders-a' has 3, 'orders-b' has 2, 'users' has 3"):
        plan_topics(topology, CONFIG, {"orders-a": 3, "orders-b": 2, "users": 3, "out": 1})


def test_two_streams_of_one_pattern_read_it_once() -> None:
    def twice(builder: ps.StreamsBuilder) -> None:
        for _ in range(2):
            builder.stream(re.compile("orders-.*"), TEXTS).to("out", OUT)

    assert len(built(twice).as_one.nodes) == 3


@pytest.mark.parametrize("first", ["pattern", "name"])
def test_a_topic_may_not_be_read_by_its_name_and_by_a_pattern(first: str) -> None:
    def both(builder: ps.StreamsBuilder) -> None:
        sources: list[Any] = [ORDERS, "orders-a"]
        for source in sources if first == "pattern" else reversed(sources):
            builder.stream(source, TEXTS).to("out", OUT)

    with pytest.raises(TopologyError, match=r"the pattern 'orders-\.\*' of source .* matches topic 'orders-a'"):
        built(both)


def test_a_topic_that_two_patterns_match_is_an_error_of_the_plan() -> None:
    def two(builder: ps.StreamsBuilder) -> None:
        builder.stream(ORDERS, TEXTS).to("out", OUT)
        builder.stream(re.compile(".*-eu"), TEXTS).to("out", OUT)

    topology = built(two)
    plan_topics(topology, CONFIG, {"orders-us": 1, "bills-eu": 1, "out": 1})
    with pytest.raises(TopologyError, match="topic 'orders-eu' matches the patterns of two sources"):
        plan_topics(topology, CONFIG, {"orders-us": 1, "bills-eu": 1, "orders-eu": 1, "out": 1})


def test_a_task_has_the_topics_that_it_is_assigned() -> None:
    programs = TaskPrograms(built(joined), CONFIG)
    reads = [TopicPartition("orders-a", 1), TopicPartition("orders-b", 1), TopicPartition("users", 1)]
    program = programs.of(0, reads)
    assert pickle.loads(pickle.dumps(ORDERS)) == ORDERS  # so a topology travels
    assert list(program.sources) == ["orders-a", "orders-b", "users"]
    assert programs.of(0, reversed(reads)) is program
    assert list(programs.of(0, reads[1:]).sources) == ["orders-b", "users"]


def test_a_topology_without_a_pattern_is_left_as_it_is() -> None:
    topology = built(lambda builder: builder.stream("in", TEXTS).to("out", OUT))
    assert with_matched_topics(topology, "app", {"in": 1}) is topology
    programs = TaskPrograms(topology, CONFIG)
    assert programs.of(0, [TopicPartition("in", 0)]) is programs.of(0)


class Kafka:
    """Its topics."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.counts = topics

    def topics(self) -> dict[str, int]:
        return dict(self.counts)

    create_topics = topic_configs = None


def test_a_topic_that_appears_later_leads_to_a_new_plan() -> None:
    topology, kafka = built(copy), Kafka({"orders-a": 2, "out": 1})
    watch = TopicWatch(topology, CONFIG, lambda: kafka, lambda: 0.0)  # type: ignore[arg-type, return-value]  # a part
    plan = plan_topics(topology, CONFIG, kafka.topics()).tasks
    kafka.counts |= {"another": 3, "orders-new": 0}
    assert watch.check(plan) is None
    kafka.counts["orders-new"] = 1
    grown = watch.check(plan)
    assert grown is not None
    assert grown.topics == ("orders-a", "orders-new")
    assert grown.partitions[TaskId(0, 0)] == {TopicPartition("orders-a", 0), TopicPartition("orders-new", 0)}
    assert watch.check(grown) is None


def test_a_source_by_hand_may_have_a_pattern_alone() -> None:
    topology = ps.Topology().add_source("Orders", ORDERS, key_serde=TEXT, value_serde=TEXT)
    topology.add_sink("Out", "out", "Orders", key_serde=TEXT, value_serde=TEXT)
    assert "Source: Orders (topics: orders-.*)" in topology.describe()
    with ps.TopologyTestDriver(topology) as driver:
        driver.create_input_topic("orders-eu", TEXT, TEXT).pipe_input("k", "v", 1)
        output = driver.create_output_topic("out", TEXT, TEXT)
        assert (output.read_value(), output.is_empty()) == ("v", True)
    with pytest.raises(TopologyError, match="source 'More' has a pattern and more"):
        ps.Topology().add_source("More", ORDERS, "returns")
