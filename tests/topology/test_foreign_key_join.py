"""The names, topics and partitions that a join by foreign key adds to a topology, and the programs it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topic_plan import plan_topics

STRINGS = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())
CONFIG = StreamsConfig.of({"application.id": "app"})
DEFAULTS = {"default.key.serde": ps.Serdes.string(), "default.value.serde": ps.Serdes.string()}


def tables() -> tuple[ps.StreamsBuilder, ps.KTable[str, str], ps.KTable[str, str]]:
    builder = ps.StreamsBuilder()
    return builder, builder.table("left", STRINGS), builder.table("right", STRINGS)


def joiner(value: str, other: str) -> str:
    return value + other


def one_argument() -> Any:
    return lambda key: 0


def test_everything_is_named_after_the_join_where_that_has_a_name() -> None:
    builder, left, right = tables()
    left.join(right, str, joiner, ps.TableJoined.as_("F")).to_stream().to("out")
    topology = builder.build()
    assert list(topology.repartition_topics) == [
        "F-subscription-registration-topic",
        "F-subscription-response-topic",
    ]
    assert "F-subscription-store" in topology.store_builders
    named = [node.name for sub in topology.subtopologies for node in sub.nodes if node.name.startswith("F-")]
    assert sorted(named) == [
        "F-foreign-join-subscription",
        "F-result",
        "F-subscription-join-foreign",
        "F-subscription-receive",
        "F-subscription-registration-processor",
        "F-subscription-registration-sink",
        "F-subscription-registration-source",
        "F-subscription-response-resolver",
        "F-subscription-response-sink",
        "F-subscription-response-source",
    ]


def test_a_name_uses_up_the_numbers_all_the_same() -> None:
    for how in (None, ps.TableJoined.as_("F")):
        builder, left, right = tables()
        joined = left.join(right, str, joiner, how)
        joined.to_stream().to("out")
        assert "KTABLE-TOSTREAM-0000000020" in builder.build().describe()


@pytest.mark.parametrize(
    "call",
    [
        lambda left, right: left.join(right, str, joiner, ps.TableJoined.as_("F"), ps.Materialized.as_("kept")),
        lambda left, right: left.join(right, str, joiner, ps.Materialized.as_("kept")),
        lambda left, right: left.left_join(right, str, joiner=joiner, materialized=ps.Materialized.as_("kept")),
        lambda left, right: left.left_join(
            right, foreign_key_extractor=str, joiner=joiner, materialized=ps.Materialized.as_("kept")
        ),
    ],
)
def test_the_result_is_kept_where_a_store_is_named(call: Callable[..., ps.KTable[Any, Any]]) -> None:
    builder, left, right = tables()
    assert call(left, right).queryable_store_name == "kept"
    assert "kept" in builder.build().store_builders


def test_topics_have_the_partitions_of_the_table_that_reads_them() -> None:
    builder, left, right = tables()
    left.join(right, str, joiner).to_stream().to("out")
    plan = plan_topics(builder.build(), CONFIG, {"left": 3, "right": 5, "out": 1})
    counts = {topic.name.split("-")[-3]: topic for topic in plan.internal if topic.name.endswith("-topic")}
    assert {name: topic.partitions for name, topic in counts.items()} == {"REGISTRATION": 5, "RESPONSE": 3}
    assert counts["RESPONSE"].config["cleanup.policy"] == "delete"
    assert [sub.tasks for sub in plan.tasks.subtopologies] == [3, 5]


def test_a_table_behind_a_repartition_gets_as_many_partitions_as_its_subscriptions() -> None:
    builder = ps.StreamsBuilder()
    left = builder.table("left", STRINGS)
    right = builder.stream("right", STRINGS).select_key(lambda key, value: value).to_table()
    left.join(right, str, joiner).to_stream().to("out")
    plan = plan_topics(builder.build(), CONFIG, {"left": 6, "right": 2, "out": 1})
    assert {sub.tasks for sub in plan.tasks.subtopologies if len(sub.topics) == 2} == {6}


def test_a_table_may_be_joined_with_itself() -> None:
    builder = ps.StreamsBuilder()
    people = builder.table("people", STRINGS)
    people.left_join(people, lambda person: person[:1], lambda person, chief: f"{person}<{chief}").to_stream().to("out")
    with ps.TopologyTestDriver(builder.build(), DEFAULTS) as driver:
        given = driver.create_input_topic("people", ps.Serdes.string(), ps.Serdes.string())
        for key, value in (("a", "b"), ("b", "a"), ("a", "c")):
            given.pipe_input(key, value)
        out = driver.create_output_topic("out", ps.Serdes.string(), ps.Serdes.string())
        assert out.read_key_values_to_map() == {"a": "c<None", "b": "a<c"}


def test_the_foreign_key_may_be_made_of_the_key_too() -> None:
    builder, left, right = tables()
    left.join(right, lambda key, value: key + value, joiner).to_stream().to("out")
    with ps.TopologyTestDriver(builder.build(), DEFAULTS) as driver:
        driver.create_input_topic("right", ps.Serdes.string(), ps.Serdes.string()).pipe_input("ab", "x")
        driver.create_input_topic("left", ps.Serdes.string(), ps.Serdes.string()).pipe_input("a", "b")
        assert driver.create_output_topic("out", ps.Serdes.string(), ps.Serdes.string()).read_value() == "bx"


def test_a_missing_serde_is_reported_with_the_table_that_lacks_it() -> None:
    builder, left, right = tables()
    left.map_values(len).join(right, str, lambda length, value: value).to_stream().to(
        "out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string())
    )
    with pytest.raises(ps.ConfigError, match=r"the left table of join KTABLE-FK.* has no value serde.*Materialized"):
        TaskProgram.of([builder.build().as_one], CONFIG)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda left, right: left.join("right", str, joiner), "join by foreign key needs another KTable, not 'right'"),
        (lambda left, right: left.join(right, lambda: 1, joiner), r"join takes f\(value\) or f\(key, value\) as its"),
        (lambda left, right: left.left_join(right, str, len), "left_join takes f.* as its joiner"),
        (lambda left, right: left.join(right, str, joiner, "named"), "join needs a TableJoined, not 'named'"),
        (lambda left, right: left.join(right, str, joiner, None, "store"), "join needs a Materialized, not 'store'"),
        (lambda left, right: left.join(tables()[2], str, joiner), "the same StreamsBuilder"),
        (lambda left, right: ps.TableJoined.with_(one_argument()), "TableJoined takes f.* as its partitioner"),
        (lambda left, right: ps.TableJoined.as_("a b"), "illegal name 'a b'"),
    ],
)
def test_impossible_options_are_reported_when_the_program_is_built(call: Callable[..., object], message: str) -> None:
    _, left, right = tables()
    with pytest.raises(ps.TopologyError, match=message):
        call(left, right)
