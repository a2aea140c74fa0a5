"""Tables grouped and aggregated, beyond what Kafka Streams' own cases show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import ConfigError, ProcessingError, ProductionError, TopologyError
from penstock.common.serdes import Serdes
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.dsl.kgrouped_table import KGroupedTable
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced
from tests.tasks.bench import STRINGS, Bench, changelog

CONFIG = {"application.id": "app", "default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}
TEXTS: Materialized[Any, Any] = Materialized.as_("texts")
CITIES: Grouped[str, str] = Grouped.as_("by-city")

Program = Callable[[KGroupedTable[Any, Any]], KTable[Any, Any]]


def city_of(user: str, city: str) -> tuple[str | None, str] | None:
    """Returns (city, user), with a null key for "nowhere"; returns None for "unknown"."""
    return None if city == "unknown" else (None if city == "nowhere" else city, user)


def played(program: Program, *updates: tuple[str, str | None, int]) -> tuple[list[tuple[Any, Any, int]], list[str]]:
    """Returns the aggregate's updates for users and their cities (key, value, time), and the bytes repartitioned."""
    builder = StreamsBuilder()
    grouped = builder.table("users", STRINGS).group_by(city_of, CITIES)
    program(grouped).map_values(str).to_stream().to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        users = driver.create_input_topic("users", Serdes.string(), Serdes.string())
        for user, city, timestamp in updates:
            users.pipe_input(user, city, timestamp)
        reported = driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_records_to_list()
        bytes_ = Serdes.bytes()
        changes = driver.create_output_topic("app-by-city-repartition", bytes_, bytes_).read_records_to_list()
        return (
            [(record.key, record.value, record.timestamp) for record in reported],
            [f"{(record.key or b'').decode()}: {(record.value or b'').hex()}" for record in changes],
        )


def joined_names(grouped: KGroupedTable[str, str]) -> KTable[str, str]:
    return grouped.aggregate(
        str, lambda city, user, all: f"{all}+{user}", lambda city, user, all: f"{all}-{user}", TEXTS
    )


def test_a_moved_row_is_subtracted_from_one_group_before_it_is_added_to_the_other() -> None:
    reported, changes = played(joined_names, ("ada", "rome", 5), ("ada", "oslo", 3), ("ada", None, 9))
    assert reported == [("rome", "+ada", 5), ("rome", "+ada-ada", 5), ("oslo", "+ada", 3), ("oslo", "+ada-ada", 9)]
    assert changes == ["rome: 61646101", "rome: 61646100", "oslo: 61646101", "oslo: 61646100"]


def test_a_row_that_stays_in_its_group_is_one_record_with_both_values() -> None:
    reported, changes = played(joined_names, ("ada", "rome", 5), ("ada", "rome", 7))
    assert reported == [("rome", "+ada", 5), ("rome", "+ada-ada+ada", 7)]
    assert changes == ["rome: 61646101", "rome: 0661646161646102"]


def test_rows_that_are_in_no_group_are_neither_added_nor_subtracted() -> None:
    updates = ("ada", "nowhere", 1), ("ada", "rome", 2), ("ada", "unknown", 3), ("ada", "unknown", 4), ("eve", None, 5)
    reported, changes = played(joined_names, *updates)
    assert reported == [("rome", "+ada", 2), ("rome", "+ada-ada", 3)]
    assert changes == ["rome: 61646101", "rome: 61646100"]


def test_a_count_goes_down_to_zero_and_stays_there() -> None:
    reported, _ = played(lambda grouped: grouped.count(), ("ada", "rome", 5), ("eve", "rome", 4), ("ada", None, 6))
    assert reported == [("rome", "1", 5), ("rome", "2", 5), ("rome", "1", 6)]
    reported, _ = played(lambda grouped: grouped.count(), ("ada", "rome", 5), ("ada", None, 6))
    assert reported == [("rome", "1", 5), ("rome", "0", 6)]


def test_a_row_that_was_not_added_is_not_subtracted() -> None:
    """If the subtractor deletes the aggregate, the next subtraction finds none, and the subtractor is not called."""

    def deleting(grouped: KGroupedTable[str, str]) -> KTable[str, str]:
        return grouped.reduce(lambda all, user: f"{all}+{user}", lambda all, user: None, TEXTS)

    reported, _ = played(deleting, ("ada", "rome", 1), ("eve", "rome", 2), ("ada", None, 3), ("eve", None, 4))
    assert reported == [("rome", "ada", 1), ("rome", "ada+eve", 2), ("rome", None, 3)]
    reported, _ = played(deleting, ("ada", "rome", 5), ("ada", "rome", 6))
    assert reported == [("rome", "ada", 5), ("rome", "ada", 6)]


def test_the_table_is_kept_for_its_old_values() -> None:
    builder = StreamsBuilder()
    builder.table("users", STRINGS).map_values(str.upper).group_by(city_of).count()
    first, second = builder.build().subtopologies
    assert [store.name for store in first.stores] == ["users-STATE-STORE-0000000000"]
    assert [store.name for store in second.stores] == ["KTABLE-AGGREGATE-STATE-STORE-0000000005"]


def test_names_are_those_of_kafka_streams() -> None:
    builder = StreamsBuilder()
    users = builder.table("users", STRINGS)
    named, unnamed = users.group_by(city_of, Grouped.as_("by-city")), users.group_by(city_of)
    named.count(Materialized.as_("counts"), named="how-many")
    named.reduce(max, min)
    unnamed.reduce(max, min)
    unnamed.count()
    topology = builder.build()
    assert sorted(topology.repartition_topics) == [
        "KTABLE-AGGREGATE-STATE-STORE-0000000012-repartition",
        "KTABLE-AGGREGATE-STATE-STORE-0000000016-repartition",
        "by-city-repartition",
    ]
    assert [node.name for node in topology.subtopologies[0].nodes[2:]] == [
        *("by-city", "KTABLE-SELECT-0000000004"),
        *("how-many-sink", "KSTREAM-SINK-0000000013", "KSTREAM-SINK-0000000017"),
    ]
    assert [node.name for node in topology.subtopologies[1].nodes] == [
        *("how-many-source", "how-many", "KTABLE-REDUCE-0000000011")
    ]


def test_serdes_come_from_the_grouping_or_from_the_configuration_alone() -> None:
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(city_of).count()
    with pytest.raises(ConfigError, match=r"count KTABLE-AGGREGATE-0000000007, .* has no key serde.*Grouped\.with_"):
        Bench(builder)
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(city_of, Grouped.with_(Serdes.string(), Serdes.string())).count()
    Bench(builder)


def test_a_value_that_the_serde_of_the_groups_refuses_is_named() -> None:
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(lambda user, city: (city, 1)).count()
    bench = Bench(builder, CONFIG)
    bench.feed("users", ("ada", "rome", 1))
    with pytest.raises(ProductionError, match=r"string cannot write 1 \(int\): a str is expected; pass .*Grouped"):
        bench.commit()


@pytest.mark.parametrize(("returned", "message"), [("ab", "str"), (("a",), "a tuple of 1"), (["a", "b"], "list")])
def test_a_selector_that_returns_no_pair_is_named(returned: Any, message: str) -> None:
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(lambda user, city: returned).count()
    bench = Bench(builder, CONFIG)
    bench.feed("users", ("ada", "rome", 1))
    with pytest.raises(ProcessingError, match=f"group_by got {message} from its selector") as caught:
        bench.commit()
    assert caught.value.operator == "KTABLE-SELECT-0000000003"


def test_a_null_key_in_the_repartition_topic_is_an_error() -> None:
    """Only a program that is of neither Kafka Streams nor penstock writes such records."""
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(city_of, CITIES).count()
    bench = Bench(builder, CONFIG)
    with pytest.raises(ProcessingError, match="a record of a grouped table has a null key"):
        bench.feed("app-by-city-repartition", (None, b"x\x01", 1))


@pytest.mark.parametrize("serde", [Serdes.string(), Serdes.json()])
@pytest.mark.parametrize("how", [Materialized.as_("counts"), Materialized.as_("counts").with_caching_disabled()])
def test_keys_are_decoded_only_where_somebody_looks(serde: Any, how: Materialized[Any, Any]) -> None:
    builder = StreamsBuilder()
    builder.table("users", STRINGS).group_by(city_of, Grouped.with_(serde, serde).with_name("g")).count(how)
    bench = Bench(builder, CONFIG)
    key, value = serde.serialize("rome"), serde.serialize("ada")
    bench.feed("app-g-repartition", (key, value + b"\x01", 3), (key, value + b"\x01", 1))
    bench.commit()
    row = bench.look_up("counts", key, committed=True)
    assert row is not None
    assert (row.value, row.timestamp) == (2, 3)


def test_a_deletion_is_logged_at_its_records_time() -> None:
    builder = StreamsBuilder()
    grouped = builder.table("users", STRINGS).group_by(city_of, CITIES)
    grouped.reduce(max, lambda all, user: None, TEXTS.with_caching_disabled())
    bench = Bench(builder, CONFIG)
    sent = bench.feed("app-by-city-repartition", ("rome", b"ada\x01", 9), ("rome", b"ada\x00", 4))
    logged = [(each.value, each.timestamp) for each in sent if each.topic == changelog("texts")]
    assert logged == [(b"ada", 9), (None, 4)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: table.group_by(lambda city: city), r"group_by takes f\(key, value\) as its selector"),
        (lambda table: table.group_by(city_of, "by-city"), "group_by needs a Grouped, not 'by-city'"),
        (lambda table: table.group_by(city_of).count("counts"), "count needs a Materialized, not 'counts'"),
        (lambda table: table.group_by(city_of).reduce(max, None), "reduce: subtractor must be callable"),
        (lambda table: table.group_by(city_of).reduce(lambda a: a, max), r"reduce takes f\(aggregate, value\)"),
        (lambda table: table.group_by(city_of).aggregate(0, max, max), "aggregate: initializer must be callable"),
        (lambda table: table.group_by(city_of).aggregate(int, max, lambda a: a), "as its subtractor"),
        (lambda table: table.group_by(city_of).count(named="no/name"), "illegal name"),
    ],
)
def test_a_wrong_grouping_is_refused_at_the_call(call: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        call(StreamsBuilder().table("users"))


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 1.0), (True, 1), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1, {"a": True}], [1, {"a": 1}])],
)
def test_groups_are_compared_by_their_bytes_and_not_by_equality_in_python(before: Any, after: Any) -> None:
    json = Serdes.json()
    builder = StreamsBuilder()
    items = builder.table("items", Consumed.with_(Serdes.string(), json))
    items.group_by(lambda key, value: (value, value), Grouped.with_(json, json)).count(Materialized.as_("counts"))
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topic = driver.create_input_topic("items", Serdes.string(), json)
        counts = driver.get_key_value_store("counts")
        topic.pipe_input("x", before)
        topic.pipe_input("y", after)
        topic.pipe_input("x", after)
        assert before == after, "Python tells them apart: this shows nothing"
        assert (counts.get(before), counts.get(after)) == (0, 2)


def test_a_group_that_is_not_equal_to_itself_is_one_group() -> None:
    doubles = Serdes.double()
    builder = StreamsBuilder()
    items = builder.table("items", Consumed.with_(Serdes.string(), doubles))
    items.group_by(lambda key, value: (float("nan"), value), Grouped.with_(doubles, doubles)).reduce(
        lambda all, value: all + value, lambda all, value: all - value
    ).to_stream().to("out", Produced.with_(doubles, doubles))
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topic = driver.create_input_topic("items", Serdes.string(), doubles)
        for value in (1.0, 5.0):
            topic.pipe_input("x", value)
        assert driver.create_output_topic("out", doubles, doubles).read_values_to_list() == [1.0, 5.0]
