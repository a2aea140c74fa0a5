"""The processors that a wrapper sees, the changes that it may make, and those that are refused (KIP-1112)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

TEXT = ps.Serdes.string()
CONSUMED = ps.Consumed.with_(TEXT, TEXT)
Supplier = Callable[[], Any]


class Drop(ps.Processor[Any, Any, Any, Any]):
    """Forwards nothing."""

    def process(self, record: ps.Record[Any, Any]) -> None:
        """Drop."""


class DropValues(ps.FixedKeyProcessor[Any, Any, Any]):
    """Forwards nothing."""

    def process(self, record: ps.FixedKeyRecord[Any, Any]) -> None:
        """Drop."""


class Seeing(ps.ProcessorWrapper):
    """Notes the suppliers that it gets, and wraps none."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.config: Mapping[str, Any] = {}

    def configure(self, config: Mapping[str, Any]) -> None:
        """Keep the configuration."""
        self.config = config

    def wrap_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
        """Note."""
        self.seen.append(f"any {name}")
        return supplier

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
        """Note."""
        self.seen.append(f"fixed {name}")
        return supplier


def store(name: str) -> ps.StoreBuilder[str, str]:
    return ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store(name), TEXT, TEXT)


def every_kind(builder: ps.StreamsBuilder) -> None:
    """The program for which ``wrapped_by_kafka_streams.txt`` lists what Kafka Streams 4.3.1 hands to a wrapper."""
    lines = builder.stream("in")
    table, everywhere = builder.table("table"), builder.global_table("global")
    mapped = lines.filter(lambda v: True).map_values(lambda v: v).peek(print).flat_map_values(lambda v: [v])
    mapped.for_each(print)
    mapped.print(ps.Printed.to_sys_out())
    mapped.map(lambda k, v: (k, v)).group_by_key().count().to_stream().to("counts")
    filtered = table.filter(lambda v: True).map_values(lambda v: v)
    mapped.join(filtered, lambda x, y: x).process(Drop).process_values(DropValues).to("out")
    mapped.left_join(everywhere, lambda k, v: k, lambda x, y: x).split().branch(lambda v: True).default_branch()
    both = table.join(builder.table("table2"), lambda x, y: x).to_stream().merge(lines)
    both.select_key(lambda v: v).flat_map(lambda k, v: [(k, v)]).filter_not(lambda v: True).to_table()
    mapped.join(builder.stream("right"), lambda x, y: x, ps.JoinWindows.of_time_difference_with_no_grace(5))
    builder.add_global_store(store("g"), "gs", CONSUMED, Drop)


def test_it_is_handed_what_kafka_streams_hands_to_it_in_the_same_order() -> None:
    wrapper, builder = Seeing(), ps.StreamsBuilder()
    every_kind(builder)
    topology = builder.build({"processor.wrapper.class": wrapper})
    topology.add_source("S", "more").add_processor("P", Drop, "S")
    expected = (Path(__file__).parent / "wrapped_by_kafka_streams.txt").read_text().splitlines()
    assert wrapper.seen == expected


def test_it_is_configured_before_with_all_keys() -> None:
    wrapper = Seeing()
    ps.Topology({"processor.wrapper.class": wrapper, "commit.interval.ms": 5})
    assert wrapper.config["commit.interval.ms"] == 5


class Around(ps.Processor[Any, Any, Any, Any]):
    """Counts in a store of its own, and marks what its inner processor forwards."""

    def __init__(self, name: str, inner: Any, raised: list[str]) -> None:
        self.name = name
        self.inner = inner
        self.raised = raised

    def init(self, context: Any) -> None:
        """Put a context of its own in between."""
        self.context = context
        self.inner.init(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def forward(self, record: Any, child: str | None = None) -> None:
        """Mark."""
        self.context.forward(record.with_headers([*record.headers, (self.name, b"")]), child)

    def process(self, record: Any) -> None:
        """Count."""
        calls = self.context.get_state_store("calls")
        calls.put(self.name, (calls.get(self.name) or "") + "|")
        try:
            self.inner.process(record)
        except ps.ProcessingError as error:
            self.raised.append(f"{self.name}: {error.__cause__!r}")


class AroundFixedKey(Around, ps.FixedKeyProcessor[Any, Any, Any]):
    """Like ``Around``, for processors that cannot change keys."""


class Bringing:
    """A supplier with a store."""

    def __init__(self, make: Supplier) -> None:
        self.make = make

    def __call__(self) -> Any:
        return self.make()

    def stores(self) -> list[ps.StoreBuilder[str, str]]:
        """Returns the store of the calls."""
        return [store("calls")]


class Everything(ps.ProcessorWrapper):
    """Wraps each processor."""

    def __init__(self) -> None:
        self.raised: list[str] = []

    def wrap_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
        """Returns a supplier of wrapped processors, with a store."""
        return Bringing(lambda: Around(name, supplier(), self.raised))

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
        """Returns a supplier of wrapped processors, with a store."""
        return Bringing(lambda: AroundFixedKey(name, supplier(), self.raised))


def test_it_has_stores_of_its_own_sees_what_is_forwarded_and_may_continue_after_an_error() -> None:
    wrapper = Everything()
    config = {"processor.wrapper.class": wrapper}
    builder = ps.StreamsBuilder()
    numbers = builder.stream("in", CONSUMED).map_values(int, named="number")
    numbers.group_by_key(ps.Grouped.with_(TEXT, ps.Serdes.json())).count(
        ps.Materialized.as_("counts"), named="counting"
    ).to_stream(named="counted").to("out", ps.Produced.with_(TEXT, ps.Serdes.long()))
    with ps.TopologyTestDriver(builder.build(config), config) as driver:
        records = driver.create_input_topic("in", TEXT, TEXT, start_timestamp_ms=7)
        records.pipe_key_value_list([("a", "1"), ("a", "x"), ("a", "3")])
        assert list(driver.get_key_value_store("calls").all()) == [
            ("counted", "||"), ("counting", "||"), ("number", "|||"),
        ]  # fmt: skip
        out = driver.create_output_topic("out", TEXT, ps.Serdes.long()).read_records_to_list()
    assert [(each.key, each.value, each.timestamp) for each in out] == [("a", 1, 7), ("a", 2, 7)]
    assert [[name for name, _ in each.headers] for each in out] == [["number", "counting", "counted"]] * 2
    assert wrapper.raised == [
        """number: ValueError("invalid literal for int() with base 10: 'x'")""",
    ]


def test_updates_of_a_table_are_changes() -> None:
    seen: list[Any] = []

    class Looking(ps.ProcessorWrapper):
        def wrap_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
            def make() -> Any:
                inner = supplier()
                process = inner.process

                def note(record: ps.Record[Any, Any]) -> None:
                    seen.append((name, record.value))
                    process(record)

                inner.process = note
                return inner

            return make

    config = {"processor.wrapper.class": Looking}
    builder = ps.StreamsBuilder()
    table = builder.table("in", CONSUMED.with_name("table"), ps.Materialized.as_("kept"))
    table.map_values(str.upper, named="upper").group_by(lambda k, v: (v, v), ps.Grouped.with_(TEXT, TEXT)).count()
    with ps.TopologyTestDriver(builder.build(config), config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_value_list([("k", "a"), ("k", "b")])
    assert [value for name, value in seen if name == "upper"] == [ps.Change("a", None), ps.Change("b", "a")]
    assert [value for name, value in seen if name == "table"] == ["a", "b"]


def test_a_record_changed_by_a_wrapper_reaches_its_processor_alone_and_not_the_next_child() -> None:
    class Marking(ps.ProcessorWrapper):
        def wrap_fixed_key_processor_supplier(self, name: str, supplier: Supplier) -> Supplier:
            def make() -> Any:
                inner = supplier()
                process = inner.process
                inner.process = lambda record: process(record.with_timestamp(99).with_headers([("by", b"me")]))
                return inner

            return make if name == "marked" else supplier

    config = {"processor.wrapper.class": Marking}
    builder = ps.StreamsBuilder()
    lines, written = builder.stream("in", CONSUMED), ps.Produced.with_(TEXT, TEXT)
    lines.map_values(str.upper, named="marked").to("out", written)
    lines.to("out", written)
    with ps.TopologyTestDriver(builder.build(config), config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 7, [("h", b"1")])
        first, second = driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()
    assert (first.value, first.timestamp, first.headers) == ("V", 99, [("by", b"me")])
    assert (second.value, second.timestamp, second.headers) == ("v", 7, [("h", b"1")])


class TestRefused:
    def test_a_configuration_whose_wrapper_the_topology_has_not_seen(self) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", CONSUMED).peek(print, named="look")
        config = {"application.id": "app", "processor.wrapper.class": Seeing}
        for host in (ps.TopologyTestDriver, ps.KafkaStreams):
            with pytest.raises(ps.ConfigError, match=r"look was written without a wrapper.*StreamsBuilder.build"):
                host(builder.build(), config)
        ps.TopologyTestDriver(builder.build(config), config).close()

    @pytest.mark.parametrize("given", [Drop, "Seeing", 7])
    def test_an_object_that_is_no_wrapper_is_refused(self, given: Any) -> None:
        with pytest.raises(ps.ConfigError, match=r"'processor.wrapper.class': a ProcessorWrapper is needed, not"):
            ps.Topology({"processor.wrapper.class": given})

    @pytest.mark.parametrize("given", [Drop, "Seeing", 7])
    def test_an_object_that_is_no_wrapper_is_refused_even_if_nothing_is_to_be_wrapped(self, given: Any) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", CONSUMED).to("out")
        config = {"application.id": "app", "processor.wrapper.class": given}
        for host in (ps.TopologyTestDriver, ps.KafkaStreams):
            with pytest.raises(ps.ConfigError, match=r"'processor.wrapper.class': a ProcessorWrapper is needed, not"):
                host(builder.build(), config)

    def test_a_wrapper_that_returns_no_supplier_is_refused(self) -> None:
        class Nothing(ps.ProcessorWrapper):
            def wrap_processor_supplier(self, name: str, supplier: Supplier) -> Any:
                return None

        topology = ps.Topology({"processor.wrapper.class": Nothing}).add_source("A", "in")
        with pytest.raises(ps.TopologyError, match="Nothing returned None for B, not a supplier"):
            topology.add_processor("B", Drop, "A")

    def test_a_wrapped_supplier_that_makes_something_else(self) -> None:
        class Wrong(ps.ProcessorWrapper):
            def wrap_fixed_key_processor_supplier(self, name: str, supplier: Supplier) -> Any:
                return Drop

        config = {"processor.wrapper.class": Wrong}
        builder = ps.StreamsBuilder()
        builder.stream("in", CONSUMED).peek(print, named="look")
        with pytest.raises(ps.TopologyError, match=r"wrapped supplier of look returned .*Drop.*, not a FixedKeyProc"):
            ps.TopologyTestDriver(builder.build(config), config)

    def test_an_operator_that_is_made_too_early(self) -> None:
        class Early(ps.ProcessorWrapper):
            def wrap_processor_supplier(self, name: str, supplier: Supplier) -> Any:
                made = supplier()
                return lambda: made

        builder = ps.StreamsBuilder()
        builder.stream("in", CONSUMED).for_each(print, named="look")
        with pytest.raises(ps.TopologyError, match="supplier of look was called by its wrapper outside of a task"):
            builder.build({"processor.wrapper.class": Early})
