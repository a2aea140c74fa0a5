"""The error of a missing or wrong serde names the user's call, the store or topic, the serde, and the value's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ConfigError, ProcessingError, ProductionError, SerializationError
from tests.tasks.bench import STRINGS, Bench

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
Wire = Callable[[ps.StreamsBuilder, ps.KStream[Any, Any]], object]


def bench_of(wire: Wire, config: dict[str, Any] | None = None) -> Bench:
    builder = ps.StreamsBuilder()
    wire(builder, builder.stream("in", STRINGS))
    return Bench(builder, config)


def turned(stream: ps.KStream[Any, Any]) -> ps.KStream[Any, Any]:
    return stream.select_key(lambda key, value: value)


MISSING: list[tuple[Wire, list[str]]] = [
    (
        lambda b, s: turned(s).join(b.table("table", STRINGS), lambda value, other: value),
        ["join KSTREAM-JOIN-0000000008, whose input goes by way of topic app-KSTREAM-KEY-SELECT-0000000001-",
         "has no key serde", "pass Joined.with_(...), or set default.key.serde"],
    ),
    (
        lambda b, s: turned(s).left_join(b.table("table", STRINGS), lambda value, other: value, ps.Joined.as_("mine")),
        ["left_join mine, whose input goes by way of topic app-mine-repartition", "pass Joined.with_(...)"],
    ),
    (
        lambda b, s: s.group_by(lambda key, value: value).count(named="counted"),
        ["count counted, whose input goes by way of topic app-", "has no key serde", "pass Grouped.with_(...)"],
    ),
    (lambda b, s: turned(s).repartition(), ["repartition, whose input goes by way of topic app-", "pass Repart"]),
    (lambda b, s: turned(s).to("out"), ["to('out') (KSTREAM-SINK-0000000002) has no key serde", "pass Produced.with_"]),
    (lambda b, s: b.stream("other"), ["stream('other') (KSTREAM-SOURCE-0000000001) has no key serde", "pass Consumed"]),
    (lambda b, s: b.stream(["c", "d"]), ["stream(['c', 'd']) (KSTREAM-SOURCE-0000000001) has no key serde"]),
    (lambda b, s: b.table("other"), ["table('other') (KSTREAM-SOURCE-0000000002) has no key serde"]),
    (
        lambda b, s: s.group_by_key().aggregate(int, lambda k, v, a: a, ps.Materialized.as_("sums")),
        ["store sums of KSTREAM-AGGREGATE-", "has no value serde", "pass Materialized.as_('sums')"],
    ),
    (
        lambda b, s: s.map_values(lambda value: 1).join(
            b.stream("other", STRINGS), lambda one, other: one, ps.JoinWindows.of_time_difference_with_no_grace(5)
        ),
        ["store KSTREAM-JOINTHIS-", "has no value serde", "pass StreamJoined.with_(key_serde, value_serde, other_"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "message"), MISSING)
def test_a_missing_serde_is_reported_with_the_call_and_what_to_pass(wire: Wire, message: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        bench_of(wire)
    for part in message:
        assert part in str(refused.value)


def with_merged(builder: ps.StreamsBuilder, stream: ps.KStream[Any, Any]) -> None:
    grouped = stream.group_by(lambda key, value: value)
    grouped.count(ps.Materialized.with_(STRING, LONG), named="first")
    grouped.count(ps.Materialized.with_(STRING, LONG), named="second")


def test_a_repartition_that_the_optimiser_merged_is_reported_with_the_first_call() -> None:
    with pytest.raises(ConfigError, match=r"^count first, whose input goes by way of topic"):
        bench_of(with_merged, {"topology.optimization": "all"})


def long_keys(name: str) -> ps.Materialized[Any, Any]:
    return ps.Materialized.as_(name).with_key_serde(LONG).with_value_serde(STRING)


def looks_up_by_text(builder: ps.StreamsBuilder, stream: ps.KStream[Any, Any]) -> None:
    table = builder.table("table", ps.Consumed.with_(LONG, STRING))
    stream.peek(lambda key, value: None).join(table, lambda value, other: value)


WRONG_KEYS: dict[str, Wire] = {
    "count": lambda b, s: s.group_by_key().count(long_keys("kept").with_value_serde(LONG)),
    "aggregate": lambda b, s: s.group_by_key().aggregate(str, lambda k, v, a: a, long_keys("kept")),
    "reduce": lambda b, s: s.group_by_key().reduce(lambda a, v: v, long_keys("kept")),
    "to_table": lambda b, s: s.to_table(long_keys("kept")),
    "table map_values": lambda b, s: s.to_table().map_values(lambda v: v, long_keys("kept")),
    "join": looks_up_by_text,
}


@pytest.mark.parametrize("call", WRONG_KEYS)
def test_a_key_of_the_wrong_type_is_reported_with_operator_store_serde_and_type(call: str) -> None:
    bench = bench_of(WRONG_KEYS[call])
    bench.add("in", ("ada", "v", 1))
    with pytest.raises(ProcessingError) as refused:
        bench.run()
    store = "table-STATE-STORE-0000000001" if call == "join" else "kept"
    assert f"store {store}: the serde long cannot write 'ada' (str): an int from −2^63 to 2^63 − 1 is expected" in str(
        refused.value
    )
    assert f"operator {refused.value.operator}" in str(refused.value)
    assert isinstance(refused.value.__cause__, SerializationError)


def run_and_commit(bench: Bench) -> None:
    bench.run()
    bench.commit()


@pytest.mark.parametrize("caching", [True, False])
def test_an_aggregate_of_the_wrong_type_is_reported_with_store_serde_and_type(caching: bool) -> None:
    how: ps.Materialized[Any, Any] = ps.Materialized.as_("sums").with_value_serde(LONG)
    how = how if caching else how.with_caching_disabled()
    bench = bench_of(lambda b, s: s.group_by_key().aggregate(str, lambda k, v, a: a + v, how))
    bench.add("in", ("ada", "v", 1))
    with pytest.raises((SerializationError, ProcessingError)) as refused:
        run_and_commit(bench)
    assert (
        "store sums: the value of key b'ada' cannot be serialised: the serde long cannot write 'v' (str): an int from "
        "−2^63 to 2^63 − 1 is expected"
    ) in str(refused.value)


@pytest.mark.parametrize(
    ("produced", "message"),
    [
        (ps.Produced.with_(LONG, STRING), "key: the serde long cannot write 'ada' (str)"),
        (ps.Produced.with_(STRING, ps.Serdes.integer()), "value: the serde integer cannot write 'v' (str): an int"),
        (ps.Produced.with_(STRING, ps.Serdes.double()), "the serde double cannot write 'v' (str): a number is"),
        (ps.Produced.with_(STRING, ps.Serdes.bytes()), "the serde bytes cannot write 'v' (str): bytes are expected"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chosen", [True, False])
def test_a_result_of_the_wrong_type_is_reported_with_topic_serde_and_type(
    produced: ps.Produced[Any, Any], message: str, chosen: bool
) -> None:
    topic: Any = (lambda key, value, context: "out") if chosen else "out"
    bench = bench_of(lambda b, s: s.map(lambda k, v: (k, v)).to(topic, produced))
    bench.add("in", ("ada", "v", 1))
    with pytest.raises(ProductionError) as refused:
        bench.run()
    assert str(refused.value).startswith("a result for topic out cannot be serialised: ")
    assert message in str(refused.value)
    assert "pass the right serde by Produced.with_(...)" in str(refused.value)


TEXT: ps.Grouped[Any, str] = ps.Grouped.with_(STRING, STRING)


def test_a_repartitioned_key_of_the_wrong_type_is_reported_with_the_option_of_its_operator() -> None:
    bench = bench_of(lambda b, s: s.group_by(lambda k, v: len(v), TEXT).count())
    bench.add("in", ("ada", "v", 1))
    with pytest.raises(ProductionError, match=r"string cannot write 1 \(int\): a str .* by Grouped\.with_"):
        bench.run()


def test_the_test_driver_names_the_input_topic_whose_serde_does_not_fit() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS)
    driver = ps.TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in", STRING, LONG)
    with pytest.raises(SerializationError, match=r"^input topic in: value: the serde long cannot write 'x' \(str\)"):
        topic.pipe_input("k", "x")  # type: ignore[call-overload]  # the error is the point


@pytest.mark.parametrize("serde", [ps.Serdes.short(), ps.Serdes.integer(), LONG])
def test_a_number_out_of_range_is_reported_with_the_range(serde: ps.Serde[int]) -> None:
    bits = {"short": 15, "integer": 31, "long": 63}[serde.name]
    bench = bench_of(lambda b, s: s.map_values(lambda v: 2**bits).to("out", ps.Produced.with_(STRING, serde)))
    bench.add("in", ("ada", "v", 1))
    with pytest.raises(
        ProductionError, match=rf"{2**bits} \(int\): an int from −2\^{bits} to 2\^{bits} − 1 is expected"
    ):
        bench.run()
