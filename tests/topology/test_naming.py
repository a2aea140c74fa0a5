"""Names decide the names of topics: the numbers they use up are Kafka Streams'."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.topology.physical.topology import ProcessorNode


def names(builder: ps.StreamsBuilder) -> list[str]:
    return [node.name for sub in builder.build().subtopologies for node in sub.nodes]


def started() -> tuple[ps.StreamsBuilder, ps.KStream[Any, Any]]:
    builder = ps.StreamsBuilder()
    return builder, builder.stream("in")


def test_a_grouped_count_uses_up_the_numbers_of_selector_store_node_and_repartition() -> None:
    builder, stream = started()
    stream.group_by(lambda key, value: value).count()
    assert names(builder) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-KEY-SELECT-0000000001",
        "KSTREAM-FILTER-0000000005",
        "KSTREAM-SINK-0000000004",
        "KSTREAM-SOURCE-0000000006",
        "KSTREAM-AGGREGATE-0000000003",
    ]
    assert list(builder.build().repartition_topics) == ["KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"]


def test_a_given_name_uses_up_the_number_so_that_later_names_stay() -> None:
    builder, stream = started()
    stream.filter(lambda key, value: True, named="wanted").peek(print).to("out", ps.Produced.as_("sink"))
    assert names(builder) == ["KSTREAM-SOURCE-0000000000", "wanted", "KSTREAM-PEEK-0000000002", "sink"]


def test_a_named_store_uses_up_no_number_and_names_the_repartition() -> None:
    builder, stream = started()
    stream.group_by(lambda key, value: value).count(ps.Materialized.as_("counts")).to_stream()
    assert names(builder)[-1] == "KTABLE-TOSTREAM-0000000006"
    assert "counts-repartition-source" in names(builder)


def test_a_named_processor_uses_up_no_number() -> None:
    class Drop(ps.Processor[Any, Any, Any, Any]):
        def process(self, record: ps.Record[Any, Any]) -> None:
            """Forward nothing."""

    builder, stream = started()
    stream.process(Drop, named="drop").peek(print)
    assert names(builder)[1:] == ["drop", "KSTREAM-PEEK-0000000001"]


def test_counting_into_an_unnamed_store_with_serdes_burns_one_number_more() -> None:
    builder, stream = started()
    stream.group_by_key().count(ps.Materialized.with_(ps.Serdes.string(), ps.Serdes.long()))
    assert names(builder)[-1] == "KSTREAM-AGGREGATE-0000000003"


def test_a_tables_name_is_that_of_its_processor_and_begins_that_of_its_source() -> None:
    builder = ps.StreamsBuilder()
    builder.table("in", ps.Consumed.as_("users"))
    assert names(builder) == ["users-source", "users"]


def test_a_grouping_by_name_names_selector_and_repartition_topic_and_shares_it() -> None:
    builder, stream = started()
    grouped = stream.group_by(lambda key, value: value, ps.Grouped.as_("by-word"))
    grouped.count()
    grouped.reduce(lambda aggregate, value: value)
    topology = builder.build()
    assert list(topology.repartition_topics) == ["by-word-repartition"]
    assert "by-word" in names(builder)


def test_branches_are_named_by_their_split_and_their_own_name_or_number() -> None:
    builder, stream = started()
    split = stream.split(named="n-").branch(lambda k, v: v > 9, ps.Branched.as_("big")).branch(lambda k, v: v < 0)
    assert list(split.default_branch()) == ["n-big", "n-2", "n-0"]
    stream.peek(print)
    assert names(builder)[-1] == "KSTREAM-PEEK-0000000005"


def test_a_branch_with_a_function_returns_its_result_and_one_with_a_consumer_nothing() -> None:
    _, stream = started()
    taken: list[ps.KStream[Any, Any]] = []
    branches = (
        stream.split(named="s-")
        .branch(lambda k, v: True, ps.Branched.with_function(lambda branch: branch.map_values(str), "text"))
        .branch(lambda k, v: True, ps.Branched.with_consumer(taken.append, "taken"))
        .branch(lambda k, v: True, ps.Branched.with_function(lambda branch: None, "ended"))
        .no_default_branch()
    )
    assert list(branches) == ["s-text"]
    assert len(taken) == 1


def test_joins_without_a_name_share_one_repartition_topic_of_the_stream() -> None:
    builder, stream = started()
    table = builder.table("table")
    moved = stream.select_key(lambda key, value: value)
    moved.join(table, lambda left, right: left)
    moved.left_join(table, lambda left, right: left)
    assert list(builder.build().repartition_topics) == ["KSTREAM-KEY-SELECT-0000000004-repartition"]


def test_only_a_table_that_the_user_named_can_be_queried() -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("in", materialized=ps.Materialized.as_("users"))
    assert table.queryable_store_name == "users"
    assert table.filter(lambda key, value: True).queryable_store_name is None
    assert table.map_values(str, ps.Materialized.as_("texts")).queryable_store_name == "texts"


def test_a_table_gets_its_store_only_when_something_looks_into_it() -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table")
    assert builder.build().store_builders == {}
    builder.stream("in").join(table.map_values(str), lambda left, right: left, ps.Joined.as_("join"))
    topology = builder.build()
    assert list(topology.store_builders) == ["table-STATE-STORE-0000000000"]
    join = next(node for node in topology.subtopologies[0].nodes if node.name == "join")
    assert isinstance(join, ProcessorNode)
    assert join.stores == ("table-STATE-STORE-0000000000",)
