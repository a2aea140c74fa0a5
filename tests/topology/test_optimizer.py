"""The rewriting of a topology before it is built. The builder itself stays as the user wrote it."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.topology.physical.operators.stateless import DropNullKeys
from penstock.topology.physical.topology import ProcessorNode, SourceNode

ALL = {"topology.optimization": "all"}


def operator_of(topology: ps.Topology, kind: type[Any]) -> Any:
    nodes = (node for sub in topology.subtopologies for node in sub.nodes)
    return next(node.operator for node in nodes if isinstance(node, ProcessorNode) and isinstance(node.operator, kind))


def two_aggregates() -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    moved = builder.stream("in").select_key(lambda key, value: value)
    moved.group_by_key(ps.Grouped.as_("first")).count()
    moved.filter(lambda key, value: True).group_by_key(ps.Grouped.as_("second")).count()
    return builder


def test_repartitions_below_one_change_of_key_become_the_first_one() -> None:
    topology = two_aggregates().build(ALL)
    assert list(topology.repartition_topics) == ["first-repartition"]
    assert len(topology.subtopologies) == 2


def test_without_a_configuration_nothing_is_optimised() -> None:
    assert list(two_aggregates().build().repartition_topics) == ["first-repartition", "second-repartition"]


def test_building_again_gives_the_same_topology_as_if_it_were_the_first_time() -> None:
    builder = two_aggregates()
    plain = builder.build().describe()
    optimised = builder.build(ALL).describe()
    assert builder.build().describe() == plain != optimised
    assert builder.build(ALL).describe() == optimised


def test_a_change_of_the_value_keeps_a_repartition_behind_it() -> None:
    builder = ps.StreamsBuilder()
    moved = builder.stream("in").select_key(lambda key, value: value)
    moved.group_by_key(ps.Grouped.as_("first")).count()
    moved.map_values(str).group_by_key(ps.Grouped.as_("second")).count()
    assert list(builder.build(ALL).repartition_topics) == ["first-repartition", "second-repartition"]


def test_a_source_tables_topic_serves_as_its_changelog_when_optimised() -> None:
    builder = ps.StreamsBuilder()
    builder.table("users", materialized=ps.Materialized.as_("store"))
    plain = builder.build().store_builders["store"]
    reused = builder.build({"topology.optimization": "reuse.ktable.source.topics"}).store_builders["store"]
    assert (plain.logging, plain.source_topic) == (True, None)
    assert (reused.logging, reused.source_topic) == (False, "users")


def test_two_streams_of_the_same_topics_are_one_source() -> None:
    builder = ps.StreamsBuilder()
    builder.stream(["a", "b"]).to("out1")
    builder.stream(["b", "a"]).to("out2")
    (sub,) = builder.build().subtopologies
    assert [node.name for node in sub.nodes if isinstance(node, SourceNode)] == ["KSTREAM-SOURCE-0000000000"]


def test_a_repartition_drops_null_keys() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").group_by(lambda key, value: value).count()
    assert operator_of(builder.build(), DropNullKeys) == DropNullKeys(keep=False)


def test_a_repartition_above_a_left_join_keeps_null_keys() -> None:
    builder = ps.StreamsBuilder()
    moved = builder.stream("in").select_key(lambda key, value: value)
    moved.left_join(builder.table("table"), lambda left, right: left)
    assert operator_of(builder.build(), DropNullKeys) == DropNullKeys(keep=True)


def test_the_topics_of_a_join_form_a_copartition_group() -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table")
    builder.stream("in").join(table, lambda left, right: left)
    moved = builder.stream("other").select_key(lambda key, value: value)
    moved.join(table, lambda left, right: left, ps.Joined.as_("moved"))
    assert builder.build().copartition_groups == (
        frozenset({"in", "table"}),
        frozenset({"moved-repartition", "table"}),
    )


def test_a_merged_repartition_takes_the_others_place_in_copartition_groups() -> None:
    builder = ps.StreamsBuilder()
    moved = builder.stream("in").select_key(lambda key, value: value)
    moved.group_by_key(ps.Grouped.as_("first")).count()
    moved.join(builder.table("table"), lambda left, right: left, ps.Joined.as_("second"))
    assert builder.build(ALL).copartition_groups == (frozenset({"first-repartition", "table"}),)


def test_a_stream_read_twice_is_copartitioned_with_what_either_is_joined_to() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").to("out")
    builder.stream("in").join(builder.table("table"), lambda left, right: left)
    assert builder.build().copartition_groups == (frozenset({"in", "table"}),)
