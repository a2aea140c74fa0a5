"""Global tables and stores in the test driver, and what a program may not do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
TEXTS = ps.Consumed.with_(STRING, STRING)
WRITTEN = ps.Produced.with_(STRING, STRING)


def describe(value: str, user: str | None) -> str:
    return f"{value}={user}"


def driven(build: Callable[[ps.StreamsBuilder], object], **config: Any) -> ps.TopologyTestDriver:
    builder = ps.StreamsBuilder()
    build(builder)
    return ps.TopologyTestDriver(builder.build(), {key.replace("_", "."): value for key, value in config.items()})


def pipe(driver: ps.TopologyTestDriver, topic: str, *rows: tuple[str | None, str | None]) -> None:
    for key, value in rows:
        driver.create_input_topic(topic, STRING, STRING).pipe_input(key, value, 5)


def results(driver: ps.TopologyTestDriver) -> list[tuple[str | None, str | None]]:
    return driver.create_output_topic("out", STRING, STRING).read_key_values_to_list()


def join(builder: ps.StreamsBuilder) -> None:
    users = builder.global_table("users", TEXTS, ps.Materialized.as_("users-store"))
    builder.stream("in", TEXTS).join(users, lambda value: value or None, describe).to("out", WRITTEN)


def left_join(builder: ps.StreamsBuilder) -> None:
    users = builder.global_table("users", TEXTS)
    builder.stream("in", TEXTS).left_join(users, lambda value: value or None, describe).to("out", WRITTEN)


INPUT = (("k", "ada"), ("k", "nobody"), (None, "ada"), ("k", ""), ("k", None))


def test_an_inner_join_goes_by_the_selected_key_and_counts_null_values_and_selected_keys() -> None:
    with driven(join) as driver:
        pipe(driver, "users", ("ada", "1"))
        pipe(driver, "in", *INPUT)
        assert results(driver) == [("k", "ada=1"), (None, "ada=1")]
        assert driver.metrics().dropped_records_total == 2


def test_a_left_join_keeps_what_has_no_match_but_no_null_values() -> None:
    with driven(left_join) as driver:
        pipe(driver, "users", ("ada", "1"))
        pipe(driver, "in", *INPUT)
        assert results(driver) == [("k", "ada=1"), ("k", "nobody=None"), (None, "ada=1"), ("k", "=None")]
        assert driver.metrics().dropped_records_total == 1


def test_an_update_is_seen_at_once_whatever_its_timestamp_and_the_result_has_the_streams() -> None:
    with driven(join) as driver:
        users = driver.create_input_topic("users", STRING, STRING)
        lines = driver.create_input_topic("in", STRING, STRING)
        users.pipe_input("ada", "late", 1_000)
        lines.pipe_input("k", "ada", 10)
        users.pipe_input("ada", "later", 1)
        lines.pipe_input("k", "ada", 11)
        users.pipe_input("ada", None, 2)
        lines.pipe_input("k", "ada", 12)
        found = driver.create_output_topic("out", STRING, STRING).read_records_to_list()
        assert [(record.value, record.timestamp) for record in found] == [("ada=late", 10), ("ada=later", 11)]


def test_a_null_key_of_the_table_is_dropped_and_counted() -> None:
    with driven(join) as driver:
        pipe(driver, "users", (None, "x"), ("ada", "1"))
        assert driver.metrics().dropped_records_total == 1
        assert [key for key, _ in driver.get_key_value_store("users-store").all()] == ["ada"]


def test_functions_may_take_the_key_and_see_the_streams() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        users = builder.global_table("users", TEXTS)
        joined = builder.stream("in", TEXTS).join(
            users, lambda key, value: key + value, lambda key, value, user: f"{key}/{value}={user}"
        )
        joined.to("out", WRITTEN)

    with driven(build) as driver:
        pipe(driver, "users", ("ab", "1"))
        pipe(driver, "in", ("a", "b"))
        assert results(driver) == [("a", "a/b=1")]


def test_a_record_that_the_program_writes_to_the_topic_is_in_the_table_before_the_next_record() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        users = builder.global_table("users", TEXTS)
        lines = builder.stream("in", TEXTS)
        lines.left_join(users, lambda key, value: key, describe).to("out", WRITTEN)
        lines.to("users", WRITTEN)

    with driven(build) as driver:
        pipe(driver, "in", ("a", "1"), ("a", "2"))
        assert results(driver) == [("a", "1=None"), ("a", "2=1")]


class Largest(ps.Processor[str, str, None, None]):
    """Keeps the longest value of each key, and counts null keys under ``null``."""

    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        self.context = context
        self.store = context.get_state_store("longest")

    def process(self, record: ps.Record[str, str]) -> None:
        key = record.key or "null"
        if len(record.value) > len(self.store.get(key) or ""):
            self.store.put(key, record.value)


class Reads(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.store = context.get_state_store("longest")

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record.with_value(self.store.get(record.value)))


def longest() -> ps.StoreBuilder[str, str]:
    return ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store("longest"), STRING, STRING)


def global_store(builder: ps.StreamsBuilder, keeper: Any = Largest, reader: Any = Reads) -> None:
    builder.stream("in", TEXTS).process(reader).to("out", WRITTEN)
    builder.add_global_store(longest(), "words", TEXTS, keeper)


def test_a_processor_keeps_a_global_store_and_every_other_may_read_it_without_naming_it() -> None:
    with driven(global_store) as driver:
        pipe(driver, "words", ("a", "xxx"), ("a", "xx"), (None, "z"))
        pipe(driver, "in", ("k", "a"), ("k", "null"), ("k", "b"))
        assert results(driver) == [("k", "xxx"), ("k", "z"), ("k", None)]
        assert driver.get_key_value_store("longest").get("a") == "xxx"


def test_a_topology_of_a_global_store_alone_can_be_driven() -> None:
    with driven(lambda builder: builder.add_global_store(longest(), "words", TEXTS, Largest)) as driver:
        pipe(driver, "words", ("a", "x"))
        assert dict(driver.get_key_value_store("longest").all()) == {"a": "x"}
        with pytest.raises(ps.StreamsError, match="reads no topic 'in'; it reads: words"):
            pipe(driver, "in", ("a", "x"))
        with pytest.raises(ps.UnknownStateStoreError, match="stores of the topology: longest"):
            driver.get_state_store("shortest")


class Writes(Reads):
    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(record.key, record.value)


def test_a_global_store_is_read_only_for_everyone_else() -> None:
    message = "global store 'longest' is read-only here"
    with (
        driven(lambda builder: global_store(builder, reader=Writes)) as driver,
        pytest.raises(ps.ProcessingError, match=message),
    ):
        pipe(driver, "in", ("k", "a"))


class Forwards(Largest):
    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(ps.Record(None, None, 0))


class Schedules(Largest):
    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        context.schedule(1, ps.PunctuationType.STREAM_TIME, print)


class AsksForTime(Largest):
    def process(self, record: ps.Record[str, str]) -> None:
        self.context.current_stream_time_ms()


@pytest.mark.parametrize(
    ("keeper", "message"),
    [
        (Forwards, "KTABLE-SOURCE-0000000004 of a global store called forward: nothing is downstream"),
        (Schedules, "called schedule: a global store has no punctuations"),
        (AsksForTime, "called current_stream_time_ms: a global store has no stream time"),
    ],
)
def test_forbidden_calls_of_a_global_processor_are_reported(keeper: type[Largest], message: str) -> None:
    with pytest.raises(ps.ProcessingError, match=message):  # noqa: SIM117  # the driver may fail at its making
        with driven(lambda builder: global_store(builder, keeper)) as driver:
            pipe(driver, "words", ("a", "x"))


def test_a_selected_key_that_does_not_fit_the_table_is_attributed_to_the_selector() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        users = builder.global_table("users", TEXTS, ps.Materialized.as_("users-store"))
        anything: Any = len
        builder.stream("in", TEXTS).join(users, anything, describe).to("out", WRITTEN)

    with driven(build) as driver, pytest.raises(ps.ProcessingError, match=r"global store users-store: .*key_selector"):
        pipe(driver, "in", ("k", "v"))


def test_a_joiner_that_changes_the_tables_value_is_found() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        json: ps.Serde[Any] = ps.Serdes.json()
        users = builder.global_table("users", ps.Consumed.with_(STRING, json))
        lines = builder.stream("in", TEXTS)
        lines.join(users, lambda value: value, lambda value, user: str(user.pop("a"))).to("out", WRITTEN)

    with driven(build) as driver:
        pipe(driver, "users", ("ada", '{"a": 1}'))
        with pytest.raises(ps.RuleBrokenError, match="changed the table's value in place"):
            pipe(driver, "in", ("k", "ada"))


def test_serdes_are_taken_from_either_option_and_a_missing_one_is_named() -> None:
    def build(builder: ps.StreamsBuilder) -> None:
        kept: ps.Materialized[str, str] = ps.Materialized.with_(STRING, STRING)
        users = builder.global_table("users", materialized=kept)
        builder.stream("in", TEXTS).join(users, lambda value: value, describe).to("out", WRITTEN)

    with driven(build) as driver:
        pipe(driver, "users", ("ada", "1"))
        pipe(driver, "in", ("k", "ada"))
        assert results(driver) == [("k", "ada=1")]
    with pytest.raises(ps.ConfigError, match=r"global_table\('users'\).* has no key serde.*pass Consumed.with_"):
        driven(lambda builder: builder.global_table("users"))


def mistakes() -> Iterator[tuple[Callable[[ps.StreamsBuilder], object], str]]:
    texts = TEXTS
    anything: Any = max
    yield (
        lambda b: (b.global_table("a", texts), b.stream("a", texts)),
        "topic 'a' is already read by source 'KSTREAM-SOURCE-0000000001'",
    )
    yield lambda b: b.global_table(anything, texts), "topic must be a string"
    yield lambda b: b.global_table("a", anything), "global_table needs a Consumed"
    yield lambda b: b.global_table("a", texts, anything), "global_table needs a Materialized"
    yield lambda b: b.add_global_store(anything, "a", texts, Largest), "add_global_store needs a StoreBuilder"
    keeper: Any = Largest()
    yield lambda b: b.add_global_store(longest(), "a", texts, keeper), "add_global_store: give a supplier"
    yield (
        lambda b: (b.add_global_store(longest(), "a", texts, Largest), b.add_state_store(longest())),
        "two different stores are named 'longest'",
    )
    yield (
        lambda b: (b.add_global_store(longest(), "a", texts, Largest), b.stream("b").process(Reads, "longest")),
        "names global store 'longest': every processor may read every global store",
    )
    yield (
        lambda b: b.stream("b").join(ps.StreamsBuilder().global_table("a"), anything, anything),
        "both sides must come from the same StreamsBuilder",
    )
    yield lambda b: b.stream("b").join(anything, anything), "join needs a KTable, a KStream or a GlobalKTable"
    no_joiner: Any = ps.KStream.join
    yield (
        lambda b: no_joiner(b.stream("b"), b.global_table("a"), str),
        r"join with a GlobalKTable takes \(other, key_selector, joiner",
    )
    yield (
        lambda b: no_joiner(b.stream("b"), b.table("a"), max, named="x"),
        r"join with a KTable takes \(other, joiner\[, joined\]\)",
    )


@pytest.mark.parametrize(("build", "message"), list(mistakes()))
def test_a_mistake_is_reported_when_the_topology_is_built(
    build: Callable[[ps.StreamsBuilder], object], message: str
) -> None:
    builder = ps.StreamsBuilder()
    with pytest.raises(ps.TopologyError, match=message):  # noqa: PT012  # either of the two may find it
        build(builder)
        builder.build()


def test_names_are_kafka_streams_and_sub_topologies_are_numbered_together() -> None:
    builder = ps.StreamsBuilder()
    users = builder.global_table("users", TEXTS.with_name("my"), ps.Materialized.as_("kept"))
    builder.add_global_store(longest(), "words", TEXTS, Largest)
    builder.stream("in", TEXTS).join(users, lambda value: value, describe, named="look-up").to("out", WRITTEN)
    assert users.queryable_store_name == "kept"
    topology = builder.build()
    assert [sub.id for sub in topology.subtopologies] == [2]
    assert topology.describe() == (
        "Topologies:\n"
        "   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: my-source (topics: [users])\n"
        "      --> my\n"
        "    Processor: my (stores: [kept])\n"
        "      --> none\n"
        "      <-- my-source\n"
        "  Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: KSTREAM-SOURCE-0000000002 (topics: [words])\n"
        "      --> KTABLE-SOURCE-0000000003\n"
        "    Processor: KTABLE-SOURCE-0000000003 (stores: [longest])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000002\n"
        "  Sub-topology: 2\n"
        "    Source: KSTREAM-SOURCE-0000000004 (topics: [in])\n"
        "      --> look-up\n"
        "    Processor: look-up (stores: [])\n"
        "      --> KSTREAM-SINK-0000000006\n"
        "      <-- KSTREAM-SOURCE-0000000004\n"
        "    Sink: KSTREAM-SINK-0000000006 (topic: out)\n"
        "      <-- look-up\n\n"
    )
