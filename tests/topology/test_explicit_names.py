"""``ensure.explicit.internal.resource.naming`` (KIP-1111): no store and no internal topic has a generated name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import TopologyError
from penstock.topology.physical.topic_plan import plan_topics

STRICT = {"application.id": "app", "ensure.explicit.internal.resource.naming": True}
STRINGS: ps.Consumed[str, str] = ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())
WINDOWS = ps.JoinWindows.of_time_difference_with_no_grace(5)


def stream(builder: ps.StreamsBuilder, topic: str = "in") -> Any:
    return builder.stream(topic, STRINGS)


def table(builder: ps.StreamsBuilder, topic: str = "t", store: str | None = None) -> Any:
    return builder.table(topic, STRINGS, ps.Materialized.as_(store) if store else None)


def first(key: Any, value: Any) -> Any:
    return key


def either(one: Any, other: Any) -> Any:
    return one


AGGREGATE = "KSTREAM-AGGREGATE-STATE-STORE-"
UNNAMED: dict[str, tuple[Callable[[ps.StreamsBuilder], Any], list[str]]] = {
    "count": (lambda b: stream(b).group_by_key().count(), [f"{AGGREGATE}0000000001"]),
    "count, rekeyed": (
        lambda b: stream(b).group_by(first).count(),
        [f"{AGGREGATE}0000000002", f"{AGGREGATE}0000000002-repartition"],
    ),
    "count, its repartition topic named": (
        lambda b: stream(b).group_by(first, ps.Grouped.as_("g")).count(),
        [f"{AGGREGATE}0000000002"],
    ),
    "count, the operator named": (
        lambda b: stream(b).group_by_key().count(named=ps.Named.as_("counting")),
        [f"{AGGREGATE}0000000001"],
    ),
    "a table that is looked into": (
        lambda b: stream(b).join(table(b), either).to("out"),
        ["t-STATE-STORE-0000000001"],
    ),
    "stream-table join, rekeyed": (
        lambda b: stream(b).select_key(first).join(table(b, store="t"), either).to("out"),
        ["KSTREAM-KEY-SELECT-0000000001-repartition"],
    ),
    "outer join of streams": (
        lambda b: stream(b).outer_join(stream(b, "other"), either, WINDOWS).to("out"),
        [
            "KSTREAM-OUTERTHIS-0000000004-store",
            "KSTREAM-OUTEROTHER-0000000005-store",
            "KSTREAM-OUTERSHARED-0000000004-store",
        ],
    ),
    "a repartition": (lambda b: stream(b).repartition().to("out"), ["KSTREAM-REPARTITION-0000000001-repartition"]),
    "a table grouped": (
        lambda b: table(b, store="t").group_by(lambda k, v: (k, v)).count(),
        ["KTABLE-AGGREGATE-STATE-STORE-0000000003", "KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition"],
    ),
    "foreign-key join": (
        lambda b: table(b, "l", "l").join(table(b, "r", "r"), lambda v: v, either).to_stream().to("out"),
        [
            "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic",
            "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000008",
            "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic",
        ],
    ),
    "suppress": (
        lambda b: (
            stream(b)
            .group_by_key()
            .count(ps.Materialized.as_("c"))
            .suppress(ps.Suppressed.until_time_limit(5, ps.BufferConfig.unbounded()))
        ),
        ["KTABLE-SUPPRESS-STATE-STORE-0000000003"],
    ),
}


@pytest.mark.parametrize("case", UNNAMED)
def test_every_name_that_was_generated_is_listed(case: str) -> None:
    program, names = UNNAMED[case]
    builder = ps.StreamsBuilder()
    program(builder)
    builder.build()
    with pytest.raises(TopologyError) as refused:
        builder.build(STRICT)
    message = str(refused.value)
    assert message.startswith("ensure.explicit.internal.resource.naming is on")
    for name in names:
        assert name in message
    listed = [line.partition(": ")[2].partition(" (by")[0].split(", ") for line in message.splitlines()[1:]]
    assert sorted({name for line in listed for name in line if not name.endswith("-changelog")}) == sorted(names)


NAMED: dict[str, Callable[[ps.StreamsBuilder], Any]] = {
    "nothing is kept": lambda b: stream(b).map_values(lambda v: v).to("out"),
    "a table that is not kept": lambda b: table(b).to_stream().to("out"),
    "count": lambda b: stream(b).group_by(first, ps.Grouped.as_("g")).count(ps.Materialized.as_("c")),
    "a topic named after its store": lambda b: stream(b).group_by(first).count(ps.Materialized.as_("c")),
    "a topic named after the operator before it": lambda b: (
        stream(b).select_key(first, named=ps.Named.as_("by-user")).join(table(b, store="t"), either).to("out")
    ),
    "the name that was generated before, given": lambda b: (
        stream(b).group_by_key().count(ps.Materialized.as_(f"{AGGREGATE}0000000001"))
    ),
    "outer join of streams": lambda b: (
        stream(b)
        .outer_join(stream(b, "other"), either, WINDOWS, ps.StreamJoined.as_("kept").with_name("join"))
        .to("out")
    ),
    "foreign-key join": lambda b: (
        table(b, "l", "l")
        .join(table(b, "r", "r"), lambda v: v, either, table_joined=ps.TableJoined.as_("fk"))
        .to_stream()
        .to("out")
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_topology_whose_names_are_the_users_is_built(case: str) -> None:
    builder = ps.StreamsBuilder()
    NAMED[case](builder)
    builder.build(STRICT)
    builder.build(StreamsConfig.of(STRICT))


def test_all_of_them_are_named_in_one_error_with_what_gives_a_name() -> None:
    builder = ps.StreamsBuilder()
    stream(builder).group_by(first).count()
    stream(builder, "other").group_by_key().reduce(either)
    with pytest.raises(TopologyError) as refused:
        builder.build({"ensure.explicit.internal.resource.naming": "true"})
    lines = str(refused.value).splitlines()
    assert lines[1] == (
        "  Following changelog topic(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog, "
        "KSTREAM-REDUCE-STATE-STORE-0000000008-changelog"
    )
    assert lines[2].startswith("  Following state store(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-")
    assert "Materialized.as_(name)" in lines[2]
    assert "Deduplicated.as_(name)" in lines[2]
    assert lines[3].startswith("  Following repartition topic(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-")
    assert "Grouped.as_(name)" in lines[3]


def test_hosts_of_a_topology_check_names_too() -> None:
    builder = ps.StreamsBuilder()
    stream(builder).group_by_key().count()
    topology = builder.build()
    for run in (
        lambda: ps.KafkaStreams(topology, STRICT),
        lambda: ps.TopologyTestDriver(topology, STRICT),
        lambda: plan_topics(topology, StreamsConfig.of(STRICT), {"in": 1}),
    ):
        with pytest.raises(TopologyError, match="has not been named"):
            run()


def test_naming_an_operator_still_uses_up_its_number() -> None:
    builder = ps.StreamsBuilder()
    stream(builder).map_values(lambda v: v, named=ps.Named.as_("mine")).map_values(lambda v: v).to("out")
    assert [node.name for node in builder.build().as_one.nodes] == [
        "KSTREAM-SOURCE-0000000000", "mine", "KSTREAM-MAPVALUES-0000000002", "KSTREAM-SINK-0000000003"
    ]  # fmt: skip
