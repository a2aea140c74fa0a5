"""Tables joined by their primary keys, beyond what Kafka Streams' own cases show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ProcessingError, TopologyError
from penstock.common.serdes import Serdes
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.physical.topic_plan import plan_topics
from tests.tasks.bench import LONGS, STRINGS, Bench, Resume, number

Table = KTable[Any, Any]
CONFIG = {"application.id": "app", "default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}
UNCACHED: Materialized[Any, Any] = Materialized.with_(Serdes.string(), Serdes.string()).with_caching_disabled()


def pair(left: Any, right: Any) -> str:
    return f"({left},{right})"


def played(
    program: Callable[[Table, Table], Table], *updates: tuple[str, str | None, str | None, int]
) -> list[tuple[Any, Any, int]]:
    """Returns key, value, timestamp of what the joined table sends for updates (side, key, value, timestamp)."""
    builder = StreamsBuilder()
    program(builder.table("a", STRINGS), builder.table("b", STRINGS)).to_stream().to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        for side, key, value, timestamp in updates:
            driver.create_input_topic(side, Serdes.string(), Serdes.string()).pipe_input(key, value, timestamp)
        records = driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_records_to_list()
        return [(record.key, record.value, record.timestamp) for record in records]


def test_the_result_has_the_larger_timestamp_whichever_side_comes_last() -> None:
    assert played(lambda a, b: a.join(b, pair), ("a", "k", "1", 9), ("b", "k", "2", 4), ("b", "k", "3", 20)) == [
        ("k", "(1,2)", 9),
        ("k", "(1,3)", 20),
    ]


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        (lambda a, b: a.join(b, pair), ["(1,2)", None]),
        (lambda a, b: a.left_join(b, pair), ["(1,None)", "(1,2)", "(1,None)", None]),
        (lambda a, b: a.outer_join(b, pair), ["(1,None)", "(1,2)", "(1,None)", None, "(None,3)", None]),
        (lambda a, b: a.outer_join(b, pair, UNCACHED), ["(1,None)", "(1,2)", "(1,None)", None, "(None,3)", None]),
    ],
)
def test_left_and_outer_joins_have_results_for_rows_without_a_match(join: Any, expected: list[str | None]) -> None:
    updates = [("a", "1"), ("b", "2"), ("b", None), ("a", None), ("b", "3"), ("b", None), ("a", None)]
    reported = played(join, *((side, "k", value, 0) for side, value in updates))
    assert [value for _, value, _ in reported] == expected


def test_a_null_key_is_dropped_and_counted_by_the_table_it_comes_to() -> None:
    builder = StreamsBuilder()
    builder.table("a", STRINGS).outer_join(builder.table("b", STRINGS), pair).to_stream().to("out")
    bench = Bench(builder, CONFIG)
    assert bench.feed("a", (None, "1", 1)) == bench.commit() == []
    assert bench.dropped == 1


@pytest.mark.parametrize("how", [[], [Materialized.with_(Serdes.string(), Serdes.string())], [UNCACHED]])
def test_a_joined_table_is_joined_again_materialised_or_not(how: list[Any]) -> None:
    def chain(a: Table, b: Table) -> Table:
        return a.left_join(b, pair, *how).outer_join(a.join(b, pair, *how), pair, *how)

    reported = played(chain, ("a", "k", "1", 5), ("b", "k", "2", 9), ("a", "k", None, 3))
    # When b comes, the join below gets it before the join above has both: the result is the same in the end.
    assert reported[0] == ("k", "((1,None),None)", 5)
    assert ("k", "((1,2),(1,2))", 9) in reported
    assert reported[-1][1] is None


def test_a_table_is_joined_with_itself() -> None:
    assert [value for _, value, _ in played(lambda a, b: a.join(a, pair), ("a", "k", "1", 1), ("a", "k", "2", 2))] == [
        "(1,1)",
        "(1,1)",
        "(2,2)",
        "(2,2)",
    ]


def test_old_values_of_an_uncached_join_reach_an_aggregate_behind_it() -> None:
    """The subtractor takes away exactly what was added: otherwise, counts would grow with each update."""

    def counted(a: Table, b: Table) -> Table:
        groups = a.outer_join(b, pair, UNCACHED).group_by(lambda key, value: (value[:2], value))
        return groups.count(Materialized.as_("counts")).map_values(str)

    updates = [("a", "k1", "1"), ("a", "k2", "1"), ("b", "k1", "2"), ("a", "k1", "x"), ("a", "k2", None)]
    reported = played(counted, *((side, key, value, 0) for side, key, value in updates))
    assert {key: value for key, value, _ in reported} == {"(1": "0", "(x": "1"}


def test_names_are_those_of_kafka_streams() -> None:
    builder = StreamsBuilder()
    a, b = builder.table("a"), builder.table("b")
    a.join(b, pair, Materialized.as_("kept"), named="both").left_join(b, pair).outer_join(
        b, pair, Materialized.with_(Serdes.string())
    )
    nodes = [node.name for sub in builder.build().subtopologies for node in sub.nodes]
    assert nodes[4:] == [
        *("both-join-this", "both-join-other", "both"),
        *("KTABLE-JOINTHIS-0000000010", "KTABLE-JOINOTHER-0000000011", "KTABLE-MERGE-0000000009"),
        *("KTABLE-JOINTHIS-0000000014", "KTABLE-JOINOTHER-0000000015", "KTABLE-MERGE-0000000013"),
    ]
    assert set(builder.build().store_builders) == {
        *("a-STATE-STORE-0000000000", "b-STATE-STORE-0000000003", "kept", "KTABLE-MERGE-STATE-STORE-0000000012")
    }


def test_topics_with_different_counts_of_partitions_are_named_with_their_counts() -> None:
    builder = StreamsBuilder()
    builder.table("a", STRINGS).outer_join(builder.table("b", STRINGS), pair)
    config = StreamsConfig.of(CONFIG)
    with pytest.raises(TopologyError, match="must have equally many partitions: 'a' has 2, 'b' has 3"):
        plan_topics(builder.build(), config, {"a": 2, "b": 3})
    assert len(plan_topics(builder.build(), config, {"a": 3, "b": 3}).tasks.subtopologies) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.join("b", pair), "join needs a KTable, not 'b'"),
        (lambda a: a.left_join(a.to_stream(), pair), "left_join needs a KTable, not .*KStream"),
        (
            lambda a: a.outer_join(StreamsBuilder().table("b"), pair),
            "both sides must come from the same StreamsBuilder",
        ),
        (lambda a: a.outer_join(a, lambda left: left), r"outer_join takes f\(value, other\) as its joiner"),
        (lambda a: a.outer_join(a, pair, "kept"), "outer_join needs a Materialized, not 'kept'"),
        (lambda a: a.outer_join(a, pair, named="no/name"), "illegal name 'no/name'"),
    ],
)
def test_a_wrong_join_is_refused_at_the_call(call: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        call(StreamsBuilder().table("a"))


def test_a_joiner_that_raises_is_named_with_its_record_and_may_be_passed_over() -> None:
    builder = StreamsBuilder()
    table = builder.table("a", LONGS).join(builder.table("b", LONGS), lambda left, right: left // right)
    table.to_stream().to("out")
    config = {**CONFIG, "default.value.serde": Serdes.long()}
    bench = Bench(builder, config)
    bench.feed("b", ("k", 0, 1))
    bench.commit()
    bench.feed("a", ("k", 1, 1))
    with pytest.raises(ProcessingError, match="ZeroDivisionError") as caught:
        bench.commit()
    assert (caught.value.operator, caught.value.key) == ("KTABLE-JOINTHIS-0000000007", "k")
    resume = Resume()
    bench = Bench(builder, {**config, "processing.exception.handler": resume})
    bench.feed("b", ("k", 0, 1), ("l", 2, 1))
    bench.commit()
    bench.feed("a", ("k", 1, 1), ("l", 4, 1))
    assert [number(each.value) for each in bench.commit() if each.topic == "out"] == [2]
    assert len(resume.caught) == bench.dropped == 1
