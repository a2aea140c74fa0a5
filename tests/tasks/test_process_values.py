"""Processors that cannot change keys, stores that suppliers bring along, read-only stores, schedules with a start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import penstock as ps
from penstock.topology.physical.topology import ProcessorNode
from tests.tasks.bench import STRINGS, Bench, Sent, values

TEXT = ps.Serdes.string()
OUT: ps.Produced[Any, Any] = ps.Produced.with_(TEXT, TEXT)
Step = Callable[[Any, Any], object]


def store(name: str = "s") -> ps.StoreBuilder[str, str]:
    return ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store(name), TEXT, TEXT)


class Stepping(ps.FixedKeyProcessor[Any, Any, Any]):
    """Does ``step`` with the context and each record."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def init(self, context: ps.FixedKeyProcessorContext[Any, Any]) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: ps.FixedKeyRecord[Any, Any]) -> None:
        """Do the step."""
        self.step(self.context, record)


class SteppingAnyKey(ps.Processor[Any, Any, Any, Any]):
    """Does ``step`` with the context and each record, as a plain processor."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: ps.Record[Any, Any]) -> None:
        """Do the step."""
        self.step(self.context, record)


def out(sent: Sequence[Sent]) -> list[str | None]:
    return values([each for each in sent if each.topic == "out"])


def bench_of(step: Step, *stores: ps.StoreBuilder[Any, Any], **config: Any) -> Bench:
    builder = ps.StreamsBuilder()
    for each in stores:
        builder.add_state_store(each)
    names = [each.name for each in stores]
    builder.stream("in", STRINGS).process_values(partial(Stepping, step), *names, named="mine").to("out", OUT)
    return Bench(builder, config)


class TestFixedKeys:
    def test_a_derived_record_keeps_the_key(self) -> None:
        def step(context: Any, record: Any) -> None:
            context.forward(record.with_value("x").with_timestamp(9).with_headers([("h", b"1")]))
            context.forward(record)

        first, second = bench_of(step).feed("in", ("k", "v", 5))
        assert (first.key, first.value, first.timestamp, first.headers) == (b"k", b"x", 9, [("h", b"1")])
        assert (second.key, second.value, second.timestamp, second.headers) == (b"k", b"v", 5, None)

    def test_nothing_else_can_be_forwarded(self) -> None:
        bench = bench_of(lambda context, record: context.forward(ps.Record("other", "v", 1)))
        with pytest.raises(ps.ProcessingError, match="forward takes the FixedKeyRecord that was received"):
            bench.feed("in", ("k", "v", 5))

    def test_no_one_makes_a_record_but_penstock(self) -> None:
        made: Any = ps.FixedKeyRecord
        with pytest.raises(TypeError, match="cannot be made: derive it from the one that process"):
            made()
        with pytest.raises(TypeError):
            made("k", "v", 1)

    def test_a_record_cannot_be_changed_or_go_before_time(self) -> None:
        seen: list[Any] = []
        bench_of(lambda context, record: seen.append(record)).feed("in", ("k", "v", 5))
        record: Any = seen[0]
        with pytest.raises(AttributeError):
            record.key = "other"
        with pytest.raises(ValueError, match="may not be negative: -1 ms"):
            record.with_timestamp(-1)
        assert record == record.with_value("v")

    def test_nulls_reach_the_processor(self) -> None:
        seen: list[Any] = []
        bench_of(lambda context, record: seen.append((record.key, record.value))).feed("in", (None, None, 4))
        assert seen == [(None, None)]

    def test_it_has_its_stores(self) -> None:
        def step(context: Any, record: Any) -> None:
            last = context.get_state_store("s")
            context.forward(record.with_value(f"{last.get(record.key)} {record.value}"))
            last.put(record.key, record.value)

        assert out(bench_of(step, store()).feed("in", ("k", "a", 1), ("k", "b", 2))) == ["None a", "a b"]

    def test_a_following_aggregation_is_not_repartitioned_and_inherits_the_key_serde(self) -> None:
        def counted(builder: ps.StreamsBuilder, fixed: bool) -> int:
            lines = builder.stream("in", STRINGS)
            made: Any = lines.process_values(partial(Stepping, print)) if fixed else lines.process(
                partial(SteppingAnyKey, print)
            )  # fmt: skip
            made.group_by_key().count()
            return len(builder.build().subtopologies)

        assert counted(ps.StreamsBuilder(), fixed=True) == 1
        assert counted(ps.StreamsBuilder(), fixed=False) == 2
        builder = ps.StreamsBuilder()
        made = builder.stream("in", STRINGS).process_values(partial(Stepping, print))
        made.to("out")
        (node,) = (each for each in builder.build().subtopologies[0].nodes if isinstance(each, ProcessorNode))
        assert (node.operator.keeps_key, node.operator.keeps_value) == (True, False)
        assert (made._head.key_serde, made._head.value_serde) == (TEXT, None)

    @pytest.mark.parametrize(
        ("supplier", "message"),
        [
            (Stepping(print), "process_values: give a supplier that makes processors, such as the class Stepping"),
            (partial(SteppingAnyKey, print), "the supplier must make a FixedKeyProcessor, not .*SteppingAnyKey"),
            (lambda: None, "the supplier must make a FixedKeyProcessor, not None"),
        ],
    )
    def test_a_wrong_supplier_is_refused_at_once(self, supplier: Any, message: str) -> None:
        with pytest.raises(ps.TopologyError, match=message):
            ps.StreamsBuilder().stream("in").process_values(supplier)

    def test_an_error_names_the_processor(self) -> None:
        with pytest.raises(ps.ProcessingError, match="mine"):
            bench_of(lambda context, record: 1 / 0).feed("in", ("k", "v", 5))


class Counting(SteppingAnyKey):
    """Counts in a store that it brings along."""

    def __init__(self) -> None:
        super().__init__(self.count)

    @classmethod
    def stores(cls) -> list[ps.StoreBuilder[str, str]]:
        """The counts."""
        return [store("counts")]

    def count(self, context: Any, record: Any) -> None:
        """Count."""
        counts = context.get_state_store("counts")
        counts.put(record.key, (counts.get(record.key) or "") + "|")
        context.forward(record.with_value(counts.get(record.key)))


class TestConnectedStores:
    def test_a_class_brings_its_stores_along(self) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", STRINGS).process(Counting).to("out", OUT)
        assert out(Bench(builder).feed("in", ("k", "", 1), ("k", "", 1))) == ["|", "||"]

    def test_two_that_bring_the_same_store_share_it(self) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", STRINGS).process(Counting).to("out", OUT)
        builder.stream("in2", STRINGS).process(Counting).to("out", OUT)
        assert len(builder.build().subtopologies) == 1
        bench = Bench(builder)
        assert out([*bench.feed("in", ("k", "", 1)), *bench.feed("in2", ("k", "", 1))]) == ["|", "||"]

    def test_a_partial_brings_those_of_its_function(self) -> None:
        topology = ps.Topology().add_source("A", "in", key_serde=TEXT, value_serde=TEXT)
        topology.add_processor("B", partial(Counting), "A")
        assert list(topology.store_builders) == ["counts"]

    def test_a_transformer_brings_its_stores_along(self) -> None:
        class Before(ps.ValueTransformerWithKey[str, str, str]):
            @staticmethod
            def stores() -> list[ps.StoreBuilder[str, str]]:
                return [store("before")]

            def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
                self.before = context.get_state_store("before")

            def transform(self, read_only_key: str, value: str | None) -> str | None:
                before: str | None = self.before.get(read_only_key)
                self.before.put(read_only_key, value)
                return f"{before} {value}"

        builder = ps.StreamsBuilder()
        for topic in ("in", "in2"):
            builder.table(topic, STRINGS).transform_values(Before).to_stream().to("out", OUT)
        bench = Bench(builder)
        assert out([*bench.feed("in", ("k", "a", 1)), *bench.feed("in2", ("k", "b", 1))]) == ["None a", "a b"]

    def test_the_same_name_for_another_store_is_refused(self) -> None:
        class Other(Counting):
            @classmethod
            def stores(cls) -> list[ps.StoreBuilder[str, str]]:
                return [store("counts").with_logging_disabled()]

        topology = ps.Topology().add_source("A", "in").add_processor("B", Counting, "A")
        with pytest.raises(ps.TopologyError, match="two different stores are named 'counts'"):
            topology.add_processor("C", Other, "A")

    def test_stores_of_an_instance_are_refused_with_what_to_do(self) -> None:
        class Instance(SteppingAnyKey):
            def stores(self) -> list[ps.StoreBuilder[str, str]]:
                return []

        class Wrong(SteppingAnyKey):
            @staticmethod
            def stores() -> list[str]:
                return ["counts"]

        supplier: Any = partial(Instance, print)
        with pytest.raises(ps.TopologyError, match="must be a class method or a static method"):
            ps.StreamsBuilder().stream("in").process(supplier)
        with pytest.raises(ps.TopologyError, match=r"stores\(\) must give StoreBuilders.*not 'counts'"):
            ps.StreamsBuilder().stream("in").process(partial(Wrong, print))


def keep(context: Any, record: Any) -> None:
    context.get_state_store("kept").put(record.key, record.value)


def read_only(reader: Step, keeper: Step = keep) -> ps.Topology:
    both: dict[str, Any] = {"key_serde": TEXT, "value_serde": TEXT}
    topology = ps.Topology().add_source("A", "in", **both).add_processor("B", partial(SteppingAnyKey, reader), "A")
    topology.add_read_only_state_store(store("kept"), "S", "all", "P", partial(SteppingAnyKey, keeper), **both)
    return topology.connect_processor_and_state_stores("B", "kept").add_sink("C", "out", "B", **both)


class TestReadOnlyStores:
    def test_others_read_what_the_topic_has_and_cannot_write(self) -> None:
        seen: list[Any] = []

        def reader(context: Any, record: Any) -> None:
            kept = context.get_state_store("kept")
            seen.append(kept.get(record.key))
            if record.value == "write":
                kept.put(record.key, "mine")

        with ps.TopologyTestDriver(read_only(reader)) as driver:
            driver.create_input_topic("all", TEXT, TEXT).pipe_input("k", "v")
            records = driver.create_input_topic("in", TEXT, TEXT)
            records.pipe_input("k", "read")
            with pytest.raises(ps.ProcessingError, match="store 'kept' is read-only here: its topic is its changelog"):
                records.pipe_input("k", "write")
        assert seen == ["v", "v"]

    def test_its_topic_is_its_changelog_and_is_read_from_the_beginning(self) -> None:
        topology = read_only(print)
        assert topology.store_builders["kept"].source_topic == "all"
        (source,) = (each for each in topology.subtopologies[0].sources if each.topics == ("all",))
        assert source.offset_reset == "earliest"

    def test_the_driver_sees_a_keeper_that_keeps_something_else(self) -> None:
        def shout(context: Any, record: Any) -> None:
            context.get_state_store("kept").put(record.key, record.value and record.value.upper())

        with ps.TopologyTestDriver(read_only(print, shout)) as driver:
            records = driver.create_input_topic("all", TEXT, TEXT)
            records.pipe_key_value_list([("k", "A"), ("k", None)])
            with pytest.raises(ps.RuleBrokenError, match="keeps b'B' under key b'k', and a restart would restore b'b'"):
                records.pipe_input("k", "b")

    def test_the_driver_sees_a_keeper_that_leaves_something_out(self) -> None:
        with ps.TopologyTestDriver(read_only(print, lambda context, record: None)) as driver:
            records = driver.create_input_topic("all", TEXT, TEXT)
            records.pipe_input(None, "of no key")
            with pytest.raises(ps.RuleBrokenError, match="keeps None under key b'k'"):
                records.pipe_input("k", "v")

    def test_its_keeper_forwards_nothing(self) -> None:
        topology = read_only(print, lambda context, record: context.forward(record))
        with ps.TopologyTestDriver(topology) as driver, pytest.raises(ps.ProcessingError, match="called forward"):
            driver.create_input_topic("all", TEXT, TEXT).pipe_input("k", "v")


class TestContext:
    def test_it_has_the_configuration(self) -> None:
        seen: list[Any] = []

        def step(context: Any, record: Any) -> None:
            clients = context.app_configs_with_prefix("consumer.")
            seen.append((context.app_configs()["commit.interval.ms"], clients, context.key_serde, context.value_serde))

        config = {"commit.interval.ms": 77, "consumer.fetch.max.bytes": 5, "default.key.serde": TEXT}
        bench_of(step, **config).feed("in", ("k", "v", 1))
        assert seen == [(77, {"fetch.max.bytes": 5}, TEXT, None)]

    @pytest.mark.parametrize(
        ("start", "error", "message"),
        [
            (-1, ValueError, "start_time may not be negative"),
            (datetime(2026, 1, 1), ValueError, "start_time must have a time zone"),
            ("soon", TypeError, "start_time must be a timedelta or whole"),
        ],
    )
    def test_a_start_that_is_no_time_is_refused(self, start: Any, error: type[Exception], message: str) -> None:
        def step(context: Any, record: Any) -> None:
            context.schedule(10, ps.PunctuationType.STREAM_TIME, print, start_time=start)

        with pytest.raises(ps.ProcessingError, match=message) as raised:
            bench_of(step).feed("in", ("k", "v", 1))
        assert isinstance(raised.value.__cause__, error)

    def test_a_schedule_begins_at_its_start_and_keeps_its_phase(self) -> None:
        called: list[int] = []

        class Starting(ps.Processor[Any, Any, Any, Any]):
            def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
                start = datetime.fromtimestamp(0.025, UTC)
                context.schedule(10, ps.PunctuationType.STREAM_TIME, called.append, start_time=start)

            def process(self, record: ps.Record[Any, Any]) -> None: ...

        builder = ps.StreamsBuilder()
        builder.stream("in", STRINGS).process(Starting)
        Bench(builder).feed("in", *(("k", "v", at) for at in (0, 24, 25, 30, 36, 70)))
        assert called == [25, 36, 70]
