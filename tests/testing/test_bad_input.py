"""Bad input, one section for each kind: penstock does as Kafka Streams, or raises an error that explains more.

A dropped record counts in ``dropped-records-total`` if Kafka Streams counts it; the corpus of ``tests/parity``
holds the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import (
    DeserializationError,
    InvalidTimestampError,
    ProcessingError,
    ProductionError,
    TopologyError,
)
from penstock.common.ids import TopicPartition
from penstock.testing.fake_broker import MAX_RECORD_BYTES, FakeBroker
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics

Build = Callable[[ps.StreamsBuilder], Any]
Given = tuple[str, "str | None", "str | None", int]
"""(topic, key, value, time)"""

TEXT = ps.Serdes.string()
TEXTS: ps.Consumed[str, str] = ps.Consumed.with_(TEXT, TEXT)
OUT = ps.Produced.with_(TEXT, TEXT)
NEAR = ps.JoinWindows.of_time_difference_with_no_grace(10)


def one(b: ps.StreamsBuilder, topic: str = "in") -> Any:
    return b.stream(topic, TEXTS)


def table(b: ps.StreamsBuilder, topic: str = "t") -> Any:
    return b.table(topic, TEXTS, ps.Materialized.as_(f"{topic}-store"))


def grouped(b: ps.StreamsBuilder, topic: str = "in") -> Any:
    return one(b, topic).group_by_key(ps.Grouped.with_(TEXT, TEXT))


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def counts(table: Any) -> None:
    table.map_values(str).to_stream().map(lambda key, value: (str(key), value)).to("out", OUT)


def play(
    build: Build, *records: Given, config: dict[str, Any] | None = None
) -> tuple[list[tuple[str | None, str | None]], int]:
    """Returns the keys and values of what comes out, and the number of records that were dropped."""
    builder = ps.StreamsBuilder()
    build(builder)
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        for topic, key, value, time in records:
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, time)
        out = driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()
        return [(record.key, record.value) for record in out], driver.metrics().dropped_records_total


# ---- null keys and values ----


@pytest.mark.parametrize(
    ("build", "records", "out", "dropped"),
    [
        pytest.param(lambda b: one(b).to("out", OUT), [("in", None, None, 0)], [(None, None)], 0, id="stateless"),
        pytest.param(lambda b: counts(grouped(b).count()), [("in", None, "v", 0)], [], 1, id="aggregate, key"),
        pytest.param(lambda b: counts(grouped(b).count()), [("in", "k", None, 0)], [], 1, id="aggregate, value"),
        pytest.param(
            lambda b: counts(grouped(b).windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count()),
            [("in", None, "v", 0)], [], 1, id="windows, key",
        ),
        pytest.param(
            lambda b: counts(grouped(b).windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(10)).count()),
            [("in", None, "v", 0)], [], 1, id="sessions, key",
        ),
        pytest.param(lambda b: table(b).to_stream().to("out", OUT), [("t", None, "v", 0)], [], 1, id="table, key"),
        pytest.param(
            lambda b: table(b).to_stream().to("out", OUT),
            [("t", "k", "v", 0), ("t", "k", None, 1)], [("k", "v"), ("k", None)], 0, id="table, value",
        ),
        pytest.param(
            lambda b: one(b).join(table(b), pair).to("out", OUT), [("in", None, "v", 0)], [], 1, id="stream-table, key"
        ),
        pytest.param(
            lambda b: one(b).left_join(table(b), pair).to("out", OUT),
            [("in", None, "v", 0)], [(None, "v+None")], 0, id="stream-table left, key",
        ),
        pytest.param(
            lambda b: one(b).join(one(b, "other"), pair, NEAR).to("out", OUT),
            [("in", None, "v", 0), ("other", "k", None, 0)], [], 2, id="streams, key and value",
        ),
        pytest.param(
            lambda b: one(b).left_join(one(b, "other"), pair, NEAR).to("out", OUT),
            [("in", None, "v", 0)], [(None, "v+None")], 0, id="streams left, key",
        ),
        pytest.param(
            lambda b: table(b).join(table(b, "u"), pair).to_stream().to("out", OUT),
            [("t", None, "v", 0), ("u", None, "v", 0)], [], 2, id="tables, key",
        ),
        pytest.param(
            lambda b: table(b).join(table(b, "u"), lambda v: None, pair).to_stream().to("out", OUT),
            [("t", "k", "v", 0)], [], 1, id="foreign key",
        ),
        pytest.param(
            lambda b: one(b).join(b.global_table("g", TEXTS), lambda k, v: None, pair).to("out", OUT),
            [("in", "k", "v", 0)], [], 1, id="global table, the key that is looked up",
        ),
        pytest.param(
            lambda b: one(b).repartition(ps.Repartitioned.with_(TEXT, TEXT)).to("out", OUT),
            [("in", None, "v", 0)], [], 0, id="repartition, key: left out before the topic, uncounted",
        ),
        pytest.param(
            lambda b: counts(one(b).group_by(lambda k, v: None, ps.Grouped.with_(TEXT, TEXT)).count()),
            [("in", "k", "v", 0)], [], 0, id="group_by that selects none: left out before the topic, uncounted",
        ),
    ],
)  # fmt: skip
def test_nulls(build: Build, records: list[Given], out: list[Any], dropped: int) -> None:
    assert play(build, *records) == (out, dropped)


# ---- late records ----


@pytest.mark.parametrize(
    ("build", "out"),
    [
        pytest.param(
            lambda b: counts(grouped(b).windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count()),
            [("[k@500000/500010]", "1")], id="windows",
        ),
        pytest.param(
            lambda b: counts(
                grouped(b).windowed_by(ps.SlidingWindows.of_time_difference_with_no_grace(10)).count()
            ),
            [("[k@499990/500000]", "1")], id="sliding windows",
        ),
        pytest.param(
            lambda b: counts(grouped(b).windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(10)).count()),
            [("[k@500000/500000]", "1")], id="sessions",
        ),
        pytest.param(
            lambda b: one(b).join(one(b, "other"), pair, NEAR).to("out", OUT), [], id="streams"
        ),
    ],
)  # fmt: skip
def test_a_late_record_is_dropped_and_counted(build: Build, out: list[Any]) -> None:
    assert play(build, ("in", "k", "v", 500_000), ("in", "k", "late", 5)) == (out, 1)


def test_a_late_update_of_a_table_is_taken_as_it_comes() -> None:
    records = ("t", "k", "new", 100), ("t", "k", "old", 5)
    assert play(lambda b: table(b).to_stream().to("out", OUT), *records) == ([("k", "new"), ("k", "old")], 0)


# ---- negative timestamps ----


def at_minus_one(extractor: Any) -> Build:
    return lambda b: b.stream("in", TEXTS.with_timestamp_extractor(extractor)).to("out", OUT)


def pipe_negative(build: Build, config: dict[str, Any] | None = None) -> tuple[int, int]:
    """Returns the number of records that came out, and of those that were dropped."""
    builder = ps.StreamsBuilder()
    build(builder)
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        driver.pipe("in", b"k", b"v", -1)
        out = driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()
        return len(out), driver.metrics().dropped_records_total


def test_a_negative_timestamp_ends_the_application_by_default() -> None:
    with pytest.raises(InvalidTimestampError, match="topic in"):
        pipe_negative(lambda b: one(b).to("out", OUT))


def test_an_extractor_that_skips_it_counts_it() -> None:
    assert pipe_negative(at_minus_one(ps.LogAndSkipOnInvalidTimestamp())) == (0, 1)


def test_a_record_with_a_negative_time_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="may not be negative: -1 ms"):
        ps.Record("k", "v", -1)


# ---- keys and values of the wrong type ----


def numbers(b: ps.StreamsBuilder) -> None:
    b.stream("in", ps.Consumed.with_(TEXT, ps.Serdes.long())).map_values(str).to("out", OUT)


def test_a_value_of_another_type_ends_the_application_and_names_the_record() -> None:
    with pytest.raises(DeserializationError, match=r"topic in.*partition 0.*offset 0"):
        play(numbers, ("in", "k", "text", 0))


def test_a_handler_drops_and_counts_it() -> None:
    config = {"deserialization.exception.handler": ps.LogAndContinue()}
    assert play(numbers, ("in", "k", "text", 0), ("in", "k", "8 bytes.", 1), config=config)[1] == 1


def test_a_result_of_another_type_names_sink_topic_serde_and_value() -> None:
    with pytest.raises(ProductionError, match=r"topic out cannot be serialised.*string.*7"):
        play(lambda b: one(b).map_values(lambda v: 7).to("out", OUT), ("in", "k", "v", 0))


def test_a_value_of_another_type_in_a_store_is_reported_with_what_its_serde_takes() -> None:
    kept: ps.Materialized[str, str] = ps.Materialized.as_("kept")
    long: ps.Serde[Any] = ps.Serdes.long()
    with pytest.raises(ps.StreamsError, match=r"long cannot write 'v' \(str\): an int from .* is expected"):
        play(lambda b: one(b).to_table(kept.with_value_serde(long)), ("in", "k", "v", 0))


def test_a_function_that_gets_another_type_than_it_takes_is_named() -> None:
    with pytest.raises(ProcessingError, match="KSTREAM-MAPVALUES-0000000001"):
        play(lambda b: one(b).map_values(lambda v: v + 1).to("out", OUT), ("in", "k", "v", 0))


# ---- a record that is too large ----


def test_a_record_that_is_too_large_is_an_error_of_its_topic() -> None:
    """The limit exists live, where the client knows of it, and not in the driver. The real client: tests/kafka."""
    producer = FakeClients("app", FakeBroker()).producer()
    with pytest.raises(ProductionError, match=r"too large.*topic out"):
        producer.send("out", b"k", b"x" * (MAX_RECORD_BYTES + 1), 0)


# ---- a topology with a cycle ----


def test_a_cycle_by_way_of_a_topic_is_processed_record_by_record() -> None:
    def again(b: ps.StreamsBuilder) -> None:
        stream = one(b)
        stream.filter(lambda k, v: len(v) < 3).map_values(lambda v: v + "x").to("in", OUT)
        stream.to("out", OUT)

    assert play(again, ("in", "k", "", 0))[0] == [("k", ""), ("k", "x"), ("k", "xx"), ("k", "xxx")]


def test_a_cycle_whose_topics_have_no_number_of_partitions_is_refused() -> None:
    """A cycle of operators cannot be made: each call needs the stream that it follows."""
    builder = ps.StreamsBuilder()
    circle = ps.Repartitioned.with_(TEXT, TEXT).with_name("circle")
    one(builder, "app-circle-repartition").repartition(circle)
    with pytest.raises((TopologyError, ps.MissingTopicError), match="circle"):
        plan_topics(builder.build(), StreamsConfig.of({"application.id": "app"}), {})


# ---- a name used twice ----


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda b: one(b).map_values(str, named=ps.Named.as_("twice")).map_values(str, named=ps.Named.as_("twice")),
            "two operators are named 'twice'",
        ),
        (lambda b: [b.table(t, TEXTS, ps.Materialized.as_("twice")) for t in "ab"], "two different stores are named"),
        (
            lambda b: [one(b, t).repartition(ps.Repartitioned.as_("twice")).to("out") for t in "ab"],
            "two repartition topics are named 'twice-repartition'",
        ),
        (
            lambda b: [b.stream("in", TEXTS), b.stream(["in", "other"], TEXTS)],
            "topic 'in' is read by two streams of different sets of topics",
        ),
        (lambda b: [b.table("t", TEXTS), b.stream("t", TEXTS)], "topic 't' is already read by source"),
    ],
    ids=["operators", "stores", "repartition topics", "streams", "stream and table"],
)
def test_a_name_used_twice(build: Build, message: str) -> None:
    builder = ps.StreamsBuilder()

    def write() -> None:
        build(builder)
        builder.build()

    with pytest.raises(TopologyError, match=message):
        write()


# ---- a store that is not connected ----


class Counts(ps.Processor[str, str, str, str]):
    @override
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("counts")

    @override
    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(record.key, 1)


def with_store(b: ps.StreamsBuilder, *names: str) -> None:
    supplier = ps.Stores.persistent_key_value_store("counts")
    b.add_state_store(ps.Stores.key_value_store_builder(supplier, TEXT, ps.Serdes.long()))
    one(b).process(Counts, *names).to("out", OUT)


def test_a_store_that_is_not_connected_is_named_with_those_that_are() -> None:
    with pytest.raises(ps.StreamsError, match="counts"):
        play(with_store)


def test_a_store_that_does_not_exist_is_an_error_when_the_topology_is_built() -> None:
    builder = ps.StreamsBuilder()
    with_store(builder, "counts", "no-such-store")
    with pytest.raises(TopologyError, match="uses store 'no-such-store', which does not exist"):
        builder.build()


# ---- windows shorter than zero ----


@pytest.mark.parametrize(
    "make",
    [
        lambda: ps.TimeWindows.of_size_with_no_grace(-1),
        lambda: ps.TimeWindows.of_size_with_no_grace(0),
        lambda: ps.TimeWindows.of_size_and_grace(10, -1),
        lambda: ps.TimeWindows.of_size_with_no_grace(10).advance_by(0),
        lambda: ps.TimeWindows.of_size_with_no_grace(10).advance_by(11),
        lambda: ps.SlidingWindows.of_time_difference_with_no_grace(-1),
        lambda: ps.SlidingWindows.of_time_difference_and_grace(10, -1),
        lambda: ps.SessionWindows.of_inactivity_gap_with_no_grace(0),
        lambda: ps.SessionWindows.of_inactivity_gap_with_no_grace(-1),
        lambda: ps.SessionWindows.of_inactivity_gap_and_grace(10, -1),
        lambda: ps.JoinWindows.of_time_difference_with_no_grace(-1),
        lambda: ps.JoinWindows.of_time_difference_and_grace(10, -1),
        lambda: ps.JoinWindows.of_time_difference_with_no_grace(10).before(-11),
        lambda: ps.Stores.persistent_window_store("w", 5, 10),
        lambda: ps.Stores.persistent_session_store("s", -1),
        lambda: ps.Joined.as_("j").with_grace_period(-1),
    ],
)
def test_a_window_that_cannot_be_is_refused_where_it_is_written(make: Callable[[], Any]) -> None:
    with pytest.raises((TopologyError, ValueError)) as refused:
        make()
    assert any(character.isdigit() for character in str(refused.value)), refused.value


# ---- different counts of partitions ----


def cogrouped(b: ps.StreamsBuilder) -> None:
    add = lambda key, value, total: total + value  # noqa: E731
    counts(grouped(b, "a").cogroup(add).cogroup(grouped(b, "b"), add).aggregate(str))


@pytest.mark.parametrize(
    "build",
    [
        lambda b: one(b, "a").join(one(b, "b"), pair, NEAR).to("out", OUT),
        lambda b: one(b, "a").left_join(one(b, "b"), pair, NEAR).to("out", OUT),
        lambda b: one(b, "a").outer_join(one(b, "b"), pair, NEAR).to("out", OUT),
        lambda b: one(b, "a").join(table(b, "b"), pair).to("out", OUT),
        lambda b: one(b, "a").left_join(table(b, "b"), pair).to("out", OUT),
        lambda b: table(b, "a").join(table(b, "b"), pair).to_stream().to("out", OUT),
        lambda b: table(b, "a").left_join(table(b, "b"), pair).to_stream().to("out", OUT),
        lambda b: table(b, "a").outer_join(table(b, "b"), pair).to_stream().to("out", OUT),
        cogrouped,
        lambda b: one(b, "a").map_values(str).filter(bool).join(table(b, "b").filter(bool), pair).to("out", OUT),
        lambda b: one(b, "a").merge(one(b, "c")).join(table(b, "b"), pair).to("out", OUT),
    ],
    ids=[
        "streams", "streams left", "streams outer", "stream-table", "stream-table left", "tables", "tables left",
        "tables outer", "cogroup", "behind other operators", "merged",
    ],
)  # fmt: skip
def test_joined_topics_must_have_equally_many_partitions(build: Build) -> None:
    builder = ps.StreamsBuilder()
    build(builder)
    topology, config = builder.build(), StreamsConfig.of({"application.id": "app"})
    with pytest.raises(TopologyError) as refused:
        plan_topics(topology, config, {"a": 2, "b": 3, "c": 2, "out": 1})
    assert "topics that are joined must have equally many partitions: 'a' has 2, 'b' has 3" in str(refused.value)
    plan_topics(topology, config, {"a": 3, "b": 3, "c": 3, "out": 1})


@pytest.mark.parametrize(
    "build",
    [
        lambda b: one(b, "a").join(b.global_table("b", TEXTS), lambda k, v: v, pair).to("out", OUT),
        lambda b: table(b, "a").join(table(b, "b"), lambda v: v, pair).to_stream().to("out", OUT),
        lambda b: one(b, "a").merge(one(b, "b")).to("out", OUT),
        lambda b: one(b, "a").repartition(ps.Repartitioned.with_(TEXT, TEXT)).join(table(b, "b"), pair).to("out", OUT),
        lambda b: one(b, "a").select_key(lambda k, v: v).join(table(b, "b"), pair).to("out", OUT),
    ],
    ids=["global table", "foreign key", "merge", "repartition", "a new key"],
)
def test_topics_that_are_not_copartitioned_may_have_different_numbers_of_partitions(build: Build) -> None:
    builder = ps.StreamsBuilder()
    build(builder)
    plan = plan_topics(builder.build(), StreamsConfig.of({"application.id": "app"}), {"a": 2, "b": 3, "out": 1})
    assert TopicPartition("a", 1) in plan.tasks.reads


def test_partitions_fixed_by_the_program_must_agree_with_the_topic_that_is_joined() -> None:
    builder = ps.StreamsBuilder()
    how = ps.Repartitioned.with_(TEXT, TEXT).with_name("r").with_number_of_partitions(4)
    one(builder, "a").repartition(how).join(table(builder, "b"), pair).to("out", OUT)
    with pytest.raises(TopologyError, match="do not agree: 'b' has 3, 'r-repartition' has 4"):
        plan_topics(builder.build(), StreamsConfig.of({"application.id": "app"}), {"a": 2, "b": 3, "out": 1})
