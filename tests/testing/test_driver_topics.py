"""The input of a driver, in each form, and the errors about topics, serdes and times that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOON_MS = 1_795_348_800_000
Input = ps.TestInputTopic[str, str]
Output = ps.TestOutputTopic[str, str]


@pytest.fixture
def driver() -> Iterator[ps.TopologyTestDriver]:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).to("out", ps.Produced.with_(STRING, STRING))
    with ps.TopologyTestDriver(builder.build()) as driver:
        yield driver


@pytest.fixture
def source(driver: ps.TopologyTestDriver) -> Input:
    return driver.create_input_topic("in", STRING, STRING, start_timestamp_ms=100, auto_advance=10)


@pytest.fixture
def sink(driver: ps.TopologyTestDriver) -> Output:
    return driver.create_output_topic("out", STRING, STRING)


def times(sink: Output) -> list[int]:
    return [record.timestamp for record in sink.read_records_to_list()]


class TestForms:
    def test_a_value_alone_has_a_null_key_and_the_automatic_time(self, source: Input, sink: Output) -> None:
        source.pipe_input("a")
        source.pipe_input(None)
        assert sink.read_records_to_list() == [ps.TestRecord(None, "a", 100), ps.TestRecord(None, None, 110)]

    def test_a_record_has_its_own_time_and_headers(self, source: Input, sink: Output) -> None:
        records: list[ps.TestRecord[str | None, str | None]] = [
            ps.TestRecord("k", "a", 7, [("h", b"1")]),
            ps.TestRecord("k", None, 3),
        ]
        for record in records:
            source.pipe_input(record)
        source.pipe_record_list(records)
        source.pipe_input("k", "b")
        assert sink.read_records_to_list() == [*records, *records, ps.TestRecord("k", "b", 100)]

    @pytest.mark.parametrize(
        ("headers", "message"),
        [
            (
                {"h": b"1"},
                r"headers for topic 'in' must be pairs, as in \[\('trace', b'7'\)\], not {'h': b'1'} \(dict\)",
            ),
            ([("h", "1")], "the header for topic 'in' is of type str, and must be bytes: encode it"),
            ([(7, b"1")], "the name of a header for topic 'in' must be a string, not 7"),
        ],
    )
    def test_headers_that_no_producer_takes_are_refused(
        self, headers: Any, message: str, source: Input, sink: Output
    ) -> None:
        with pytest.raises(TypeError, match=message):
            source.pipe_input("k", "a", 7, headers)
        source.pipe_input("k", "b")
        assert sink.read_records_to_list() == [ps.TestRecord("k", "b", 100)]

    @pytest.mark.parametrize("headers", [{"h": b"1"}, [("h", "1")]])
    def test_headers_that_a_program_forwards_are_looked_at_as_a_producer_does(self, headers: Any) -> None:
        class Marked(ps.Processor[str, str, str, str]):
            def init(self, context: ps.ProcessorContext[str, str]) -> None:
                self.context = context

            def process(self, record: ps.Record[str, str]) -> None:
                self.context.forward(record.with_headers(headers))

        builder = ps.StreamsBuilder()
        marked = builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Marked)
        marked.to("out", ps.Produced.with_(STRING, STRING))
        with (
            ps.TopologyTestDriver(builder.build()) as driver,
            pytest.raises(ps.ProcessingError, match=r"(headers|the header) for topic 'out'"),
        ):
            driver.create_input_topic("in", STRING, STRING).pipe_input("k", "a")

    def test_a_list_may_have_times_of_its_own_which_leave_the_automatic_one_alone(
        self, source: Input, sink: Output
    ) -> None:
        source.pipe_key_value_list([("k", "a"), ("k", "b")], 7, timedelta(milliseconds=2))
        source.pipe_value_list(["c", "d"], NOON, 5)
        source.pipe_value_list(["e", "f"], 50)
        source.pipe_value_list(["g", "h"])
        assert times(sink) == [7, 9, NOON_MS, NOON_MS + 5, 50, 50, 100, 110]

    def test_an_advance_without_a_start_is_refused(self, source: Input) -> None:
        with pytest.raises(TypeError, match="advance counts from start_timestamp_ms: give both, or neither"):
            source.pipe_value_list(["a"], advance=5)

    def test_a_record_that_is_refused_takes_no_automatic_time(self, source: Input, sink: Output) -> None:
        wrong: Any = 7
        with pytest.raises(ps.SerializationError, match="input topic in: value: the serde string cannot write 7"):
            source.pipe_input("k", wrong)
        source.pipe_input("k", "a")
        assert times(sink) == [100]


class TestInstants:
    def test_a_datetime_means_ms_since_the_epoch(self, source: Input, sink: Output) -> None:
        east = timezone(timedelta(hours=3))
        source.pipe_input("k", "a", NOON)
        source.pipe_input("k", "b", NOON.astimezone(east) + timedelta(microseconds=1999))
        assert times(sink) == [NOON_MS, NOON_MS + 1]

    def test_topics_and_clocks_begin_at_one(self) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", ps.Consumed.with_(STRING, STRING)).to("out", ps.Produced.with_(STRING, STRING))
        with ps.TopologyTestDriver(builder.build(), initial_wall_clock_ms=NOON) as driver:
            driver.create_input_topic("in", STRING, STRING).pipe_input("by the clock")
            driver.create_input_topic("in", STRING, STRING, NOON + timedelta(seconds=1)).pipe_input("by the topic")
            out = driver.create_output_topic("out", STRING, STRING)
            assert times(out) == [NOON_MS, NOON_MS + 1000]

    @pytest.mark.parametrize(
        ("time", "why"),
        [
            (datetime(2026, 11, 22, 12), "timestamp_ms has no time zone"),
            ("2026-11-22", "timestamp_ms must be a datetime or whole milliseconds, not '2026-11-22'"),
            (1.5, "must be a datetime or whole milliseconds, not 1.5"),
            (True, "must be a datetime or whole milliseconds, not True"),
        ],
    )
    def test_an_object_that_is_no_instant_is_refused(self, source: Input, time: Any, why: str) -> None:
        with pytest.raises(TypeError, match=why):
            source.pipe_input("k", "a", time)


class TestInputThatDoesNotFit:
    @pytest.mark.parametrize("serde", [None, "string", ps.Serdes.string])
    def test_an_object_that_is_no_serde_is_refused_at_the_call(self, driver: ps.TopologyTestDriver, serde: Any) -> None:
        with pytest.raises(ps.StreamsError, match=r"topic in: its keys need a Serde, such as Serdes\.string\(\), not"):
            driver.create_input_topic("in", serde, STRING)
        with pytest.raises(ps.StreamsError, match=r"topic out: its values need a Serde"):
            driver.create_output_topic("out", STRING, serde)

    def test_results_of_another_serde_are_reported(self, driver: ps.TopologyTestDriver, source: Input) -> None:
        source.pipe_input("k", "abc")
        numbers = driver.create_output_topic("out", STRING, LONG)
        with pytest.raises(
            ps.SerializationError, match=r"output topic out: value: serde long cannot read b'abc': .*8 b"
        ):
            numbers.read_value()

    @pytest.mark.parametrize("read", ["read_record", "read_value", "read_key_value"])
    def test_an_empty_topic_is_reported_as_empty_however_it_is_read(self, sink: Output, read: str) -> None:
        with pytest.raises(ps.StreamsError, match="topic out is empty: nothing"):
            getattr(sink, read)()

    @pytest.mark.parametrize(
        "read", ["read_records_to_list", "read_values_to_list", "read_key_values_to_list", "read_key_values_to_map"]
    )
    def test_lists_of_an_empty_topic_are_empty(self, sink: Output, read: str) -> None:
        assert not getattr(sink, read)()


def test_a_null_value_is_the_last_entry_of_a_map(source: Input, sink: Output) -> None:
    source.pipe_key_value_list([("k", "a"), ("l", "b"), ("k", None)])
    assert sink.read_key_values_to_map() == {"k": None, "l": "b"}
