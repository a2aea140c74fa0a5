"""The public interface of the test driver, as a user of it would describe it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.common.errors import (
    ConfigError,
    ProcessingError,
    RuleBrokenError,
    StreamsError,
    TopologyError,
    UnknownStateStoreError,
)
from penstock.common.handlers import LogAndContinue
from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.state.views import ValueAndTimestamp
from penstock.testing.driver_topics import TestInputTopic, TestOutputTopic, TestRecord
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced
from penstock.topology.physical.topology import Topology
from penstock.topology.processor_api.processor import Processor, ProcessorContext, PunctuationType

STRINGS: Consumed[str, str] = Consumed.with_(Serdes.string(), Serdes.string())
OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
Input = TestInputTopic[str, str]
Output = TestOutputTopic[str, str]


def upper() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(lambda v: None if v is None else v.upper()).to("out", OUT)
    return builder


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(upper().build(), initial_wall_clock_ms=5000) as driver:
        yield driver


@pytest.fixture
def source(driver: TopologyTestDriver) -> Input:
    return driver.create_input_topic("in", Serdes.string(), Serdes.string(), start_timestamp_ms=100, auto_advance=10)


@pytest.fixture
def sink(driver: TopologyTestDriver) -> Output:
    return driver.create_output_topic("out", Serdes.string(), Serdes.string())


def test_a_builder_that_was_not_built_is_refused_with_what_to_give() -> None:
    builder: Any = upper()
    with pytest.raises(TopologyError, match=r"not a StreamsBuilder: give builder\.build\(\)"):
        TopologyTestDriver(builder)


def test_an_output_topic_that_nothing_writes_is_refused_with_those_that_are_written(driver: TopologyTestDriver) -> None:
    with pytest.raises(StreamsError, match=r"writes no topic 'outt'; it writes: out$"):
        driver.create_output_topic("outt", Serdes.string(), Serdes.string())


def test_any_output_topic_may_be_read_where_a_function_names_the_topics() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).to(lambda key, value, context: str(value), OUT)
    with TopologyTestDriver(builder.build()) as driver:
        assert driver.create_output_topic("anything", Serdes.string(), Serdes.string()).is_empty()


class TestInput:
    def test_timestamps_advance_by_themselves(self, source: Input, sink: Output) -> None:
        source.pipe_key_value_list([("k", "a"), ("k", "b")])
        source.pipe_input("k", "c")
        assert [record.timestamp for record in sink.read_records_to_list()] == [100, 110, 120]

    def test_a_given_timestamp_leaves_the_automatic_one_alone(self, source: Input, sink: Output) -> None:
        source.pipe_input("k", "a", 7)
        source.pipe_input("k", "b")
        assert [record.timestamp for record in sink.read_records_to_list()] == [7, 100]

    def test_time_can_be_advanced(self, source: Input, sink: Output) -> None:
        source.advance_time(timedelta(seconds=1))
        source.pipe_input("k", "a")
        assert sink.read_record().timestamp == 1100

    def test_by_default_it_is_the_drivers_clock_at_the_topics_creation(
        self, driver: TopologyTestDriver, sink: Output
    ) -> None:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        driver.advance_wall_clock_time(1000)
        topic.pipe_value_list(["a", "b"])
        assert [record.timestamp for record in sink.read_records_to_list()] == [5000, 5000]

    def test_values_alone_have_a_null_key(self, source: Input, sink: Output) -> None:
        source.pipe_value_list(["a", None])
        assert sink.read_key_values_to_list() == [(None, "A"), (None, None)]

    def test_whole_records_carry_headers(self, source: Input, sink: Output) -> None:
        source.pipe_record(TestRecord("k", "a", 3, [("h", b"1")]))
        assert sink.read_record() == TestRecord("k", "A", 3, [("h", b"1")])

    def test_a_topic_that_nothing_reads_is_refused(self, driver: TopologyTestDriver) -> None:
        with pytest.raises(StreamsError, match="no topic 'inn'; it reads: in"):
            driver.create_input_topic("inn", Serdes.string(), Serdes.string())
        with pytest.raises(StreamsError, match="no topic 'inn'"):
            driver.pipe("inn", None, None, 0)

    def test_a_mistaken_topic_does_not_end_the_driver(self, driver: TopologyTestDriver, sink: Output) -> None:
        with pytest.raises(StreamsError):
            driver.pipe("inn", None, None, 0)
        driver.pipe("in", b"k", b"v", 0)
        assert sink.read_value() == "V"

    def test_a_time_of_more_than_63_bits_is_refused_and_nothing_happens(
        self, driver: TopologyTestDriver, source: Input, sink: Output
    ) -> None:
        with pytest.raises(ValueError, match="timestamp_ms is too large"):
            source.pipe_input("k", "v", 2**63)
        assert sink.is_empty()
        source.pipe_input("k", "v", 2**63 - 1)
        assert sink.read_record().timestamp == 2**63 - 1
        source.advance_time(2**63 - 1)
        with pytest.raises(ValueError, match="timestamp_ms is too large"):
            source.pipe_input("k", "v")
        assert sink.is_empty()

    def test_negative_durations_are_refused(self, driver: TopologyTestDriver, source: Input) -> None:
        with pytest.raises(ValueError, match="negative"):
            source.advance_time(-1)
        with pytest.raises(ValueError, match="negative"):
            driver.advance_wall_clock_time(-1)


class TestOutput:
    def test_each_record_is_read_once(self, source: Input, sink: Output) -> None:
        source.pipe_key_value_list([("k", "a"), ("l", "b"), ("m", "c")])
        assert (sink.get_queue_size(), sink.is_empty()) == (3, False)
        assert sink.read_value() == "A"
        assert sink.read_key_value() == ("l", "B")
        assert sink.read_values_to_list() == ["C"]
        assert (sink.get_queue_size(), sink.is_empty()) == (0, True)
        assert sink.read_records_to_list() == []

    def test_a_map_keeps_the_last_of_each_key(self, source: Input, sink: Output) -> None:
        source.pipe_key_value_list([("k", "a"), ("l", "b"), ("k", "c")])
        assert sink.read_key_values_to_map() == {"k": "C", "l": "B"}

    def test_reading_from_an_empty_topic_reports_that_it_is_empty(self, sink: Output) -> None:
        with pytest.raises(StreamsError, match="topic out is empty"):
            sink.read_record()

    def test_two_readers_of_one_topic_share_its_records(self, driver: TopologyTestDriver, source: Input) -> None:
        one = driver.create_output_topic("out", Serdes.string(), Serdes.string())
        two = driver.create_output_topic("out", Serdes.string(), Serdes.string())
        source.pipe_key_value_list([("k", "a"), ("k", "b")])
        assert (one.read_value(), two.read_value()) == ("A", "B")

    def test_names_of_topics_written_to_stay_after_reading(
        self, driver: TopologyTestDriver, source: Input, sink: Output
    ) -> None:
        assert driver.produced_topic_names() == set()
        source.pipe_input("k", "a")
        sink.read_record()
        assert driver.produced_topic_names() == {"out"}


class TestRunning:
    @staticmethod
    def counting() -> StreamsBuilder:
        builder = StreamsBuilder()
        words = builder.stream("in", STRINGS).flat_map_values(lambda v: v.split())
        counts = words.group_by(lambda k, v: v, Grouped.as_("words")).count(Materialized.as_("counts"))
        counts.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.long()))
        return builder

    CONFIG = {  # noqa: RUF012
        "application.id": "wc",
        "default.key.serde": Serdes.string(),
        "default.value.serde": Serdes.string(),
    }

    def test_everything_a_record_causes_has_happened_across_internal_topics(self) -> None:
        with TopologyTestDriver(self.counting().build(), self.CONFIG) as driver:
            driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "a b a")
            counts = driver.create_output_topic("out", Serdes.string(), Serdes.long())
            # Each word comes back as a record of its own, so the cache merges nothing.
            assert counts.read_key_values_to_list() == [("a", 1), ("b", 1), ("a", 2)]
            assert driver.produced_topic_names() == {"wc-words-repartition", "wc-counts-changelog", "out"}
            assert driver.metrics().process_total == 4

    def test_internal_topics_can_be_read(self) -> None:
        with TopologyTestDriver(self.counting().build(), self.CONFIG) as driver:
            driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "a")
            log = driver.create_output_topic("wc-counts-changelog", Serdes.string(), Serdes.long())
            assert log.read_key_values_to_list() == [("a", 1)]

    def test_stores_can_be_read_and_written(self) -> None:
        with TopologyTestDriver(self.counting().build(), self.CONFIG) as driver:
            store = driver.get_timestamped_key_value_store("counts")
            store.put("a", ValueAndTimestamp(41, 0))
            driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "a", 9)
            assert store.get("a") == ValueAndTimestamp(42, 9)
            with pytest.raises(UnknownStateStoreError, match=r"'count'; stores of the topology: counts"):
                driver.get_key_value_store("count")

    def test_a_value_put_into_a_store_from_outside_has_the_time_of_the_driver(self) -> None:
        builder = StreamsBuilder()
        plain = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), Serdes.string(), Serdes.long())
        builder.add_state_store(plain)
        builder.stream("in", STRINGS).process(Keeping, "kept")
        with TopologyTestDriver(builder.build(), self.CONFIG, initial_wall_clock_ms=70) as driver:
            store = driver.get_key_value_store("kept")
            store.put("before", 1)
            words = driver.create_input_topic("in", Serdes.string(), Serdes.string())
            words.pipe_input("k", "a", 9)
            store.put("after", 2)
            driver.advance_wall_clock_time(timedelta(milliseconds=5))
            log = driver.create_output_topic("wc-kept-changelog", Serdes.string(), Serdes.long())
            assert [(r.key, r.timestamp) for r in log.read_records_to_list()] == [
                ("before", 70),
                ("a", 9),
                ("after", 70),
            ]
            assert driver.get_state_store("kept").get("a") == 1

    def test_a_record_written_to_a_topic_the_topology_reads_goes_in_again(self) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("loop", STRINGS)
        stream.filter(lambda k, v: len(v) < 3).map_values(lambda v: v + "!").to("loop", OUT)
        stream.to("out", OUT)
        with TopologyTestDriver(builder.build()) as driver:
            driver.create_input_topic("loop", Serdes.string(), Serdes.string()).pipe_input("k", "a")
            out = driver.create_output_topic("out", Serdes.string(), Serdes.string())
            assert out.read_values_to_list() == ["a", "a!", "a!!"]

    def test_the_configuration_is_checked(self) -> None:
        with pytest.raises(ConfigError, match=r"did you mean 'max\.task\.idle\.ms'"):
            TopologyTestDriver(upper().build(), {"max.task.idle": 3})

    def test_a_missing_serde_is_reported_at_the_start(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in").to("out")
        with pytest.raises(ConfigError, match=r"^stream\('in'\) .*has no key serde"):
            TopologyTestDriver(builder.build())

    def test_dropped_records_are_counted(self) -> None:
        config = {"deserialization.exception.handler": LogAndContinue()}
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long())).peek(lambda k, v: None)
        with TopologyTestDriver(builder.build(), config) as driver:
            driver.pipe("in", b"k", b"short", 0)
            assert driver.metrics().dropped_records_total == 1


class Keeping(Processor[Any, Any, Any, Any]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._kept = context.get_state_store("kept")

    def process(self, record: Record[Any, Any]) -> None:
        self._kept.put(record.value, 1)


class Ticking(Processor[Any, Any, Any, Any]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._context = context
        context.schedule(timedelta(milliseconds=100), PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self._context.forward(Record("tick", str(now_ms), now_ms))

    def process(self, record: Record[Any, Any]) -> None:
        self._context.forward(record.with_value(str(self._context.current_system_time_ms())))


class TestWallClock:
    @pytest.fixture
    def ticking(self) -> Iterator[TopologyTestDriver]:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Ticking).to("out", OUT)
        with TopologyTestDriver(builder.build(), initial_wall_clock_ms=1000) as driver:
            yield driver

    def test_it_moves_only_when_it_is_moved_and_calls_once_for_missed_intervals(
        self, ticking: TopologyTestDriver
    ) -> None:
        out = ticking.create_output_topic("out", Serdes.string(), Serdes.string())
        for advance in (99, 1, timedelta(milliseconds=350), 50):
            ticking.advance_wall_clock_time(advance)
        assert out.read_values_to_list() == ["1100", "1450", "1500"]

    def test_processors_are_shown_it(self, ticking: TopologyTestDriver) -> None:
        ticking.advance_wall_clock_time(7)
        ticking.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "v")
        out = ticking.create_output_topic("out", Serdes.string(), Serdes.string())
        assert out.read_value() == "1007"

    def test_a_record_that_waits_for_another_partition_is_processed_when_the_idle_time_has_passed(self) -> None:
        builder = StreamsBuilder()
        builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS)).to("out", OUT)
        with TopologyTestDriver(builder.build(), {"max.task.idle.ms": 50}) as driver:
            driver.create_input_topic("left", Serdes.string(), Serdes.string()).pipe_input("k", "v")
            out = driver.create_output_topic("out", Serdes.string(), Serdes.string())
            assert out.is_empty()
            driver.advance_wall_clock_time(50)
            assert out.read_value() == "v"


class TestEnding:
    def test_processors_are_closed_once(self) -> None:
        closed: list[bool] = []

        class Closing(Ticking):
            def close(self) -> None:
                closed.append(True)

        builder = StreamsBuilder()
        builder.stream("in", STRINGS).process(Closing)
        with TopologyTestDriver(builder.build()) as driver:
            driver.close()
        assert closed == [True]

    def test_a_closed_driver_raises_an_error(self, driver: TopologyTestDriver, source: Input) -> None:
        driver.close()
        with pytest.raises(StreamsError, match="the driver is closed"):
            source.pipe_input("k", "v")
        with pytest.raises(StreamsError, match="the driver is closed"):
            driver.advance_wall_clock_time(1)

    def test_results_can_still_be_read_from_a_closed_driver(
        self, driver: TopologyTestDriver, source: Input, sink: Output
    ) -> None:
        source.pipe_input("k", "v")
        driver.close()
        assert sink.read_value() == "V"

    def test_an_error_reaches_the_caller_and_ends_the_driver(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).map_values(int).to("out", Produced.with_(Serdes.string(), Serdes.long()))
        with TopologyTestDriver(builder.build()) as driver:
            topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
            with pytest.raises(ProcessingError, match=r"ValueError.*offset 0; key"):
                topic.pipe_input("k", "no number")
            with pytest.raises(StreamsError, match=r"has ended with: ValueError.*Make a new driver"):
                topic.pipe_input("k", "7")


# ---- a topology that writes to its own source ----


def retrying(*, without_end: bool) -> Topology:
    """Counts a record down, by way of its own source."""
    builder = StreamsBuilder()
    numbers = builder.stream("retries", Consumed.with_(Serdes.string(), Serdes.integer()))
    left = numbers if without_end else numbers.filter(lambda n: n > 0).map_values(lambda n: n - 1)
    left.to("retries", Produced.with_(Serdes.string(), Serdes.integer()))
    return builder.build()


def test_a_record_written_to_a_source_of_the_topology_is_processed_before_the_input_returns() -> None:
    with TopologyTestDriver(retrying(without_end=False)) as driver:
        retries = driver.create_input_topic("retries", Serdes.string(), Serdes.integer())
        written = driver.create_output_topic("retries", Serdes.string(), Serdes.integer())
        for _ in range(2):
            retries.pipe_input("k", 9_000)
            assert written.read_values_to_list() == list(reversed(range(9_000)))


def test_records_that_loop_without_end_are_an_error() -> None:
    with TopologyTestDriver(retrying(without_end=True)) as driver:
        retries = driver.create_input_topic("retries", Serdes.string(), Serdes.integer())
        with pytest.raises(RuleBrokenError, match=r"come back without end: .* writes to 'retries', .* 10,000 rounds"):
            retries.pipe_input("k", 1)
        with pytest.raises(StreamsError, match="has ended with: records come back without end"):
            retries.pipe_input("k", 1)


def test_many_records_of_one_input_that_come_back_once_are_no_error() -> None:
    builder = StreamsBuilder()
    lines = builder.stream("lines", STRINGS)
    lines.flat_map_values(str.split).to("words", OUT)
    builder.stream("words", STRINGS).to("out", OUT)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("lines", Serdes.string(), Serdes.string()).pipe_input("k", "word " * 11_000)
        assert driver.create_output_topic("out", Serdes.string(), Serdes.string()).get_queue_size() == 11_000
