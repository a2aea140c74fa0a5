"""A time that no record may have is refused in the place in which a program hands it over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
NO_TIMES: list[tuple[Any, type[Exception], str]] = [
    (1.5, TypeError, r"must be whole milliseconds since 1970, an int, not 1\.5 \(float\)"),
    (True, TypeError, r"not True \(bool\)"),
    ("7", TypeError, r"not '7' \(str\)"),
    (None, TypeError, r"not None \(NoneType\)"),
    (-5, ValueError, "may not be negative: -5 ms"),
    (1 << 63, ValueError, "is too large: 9223372036854775808 ms"),
]
no_times = pytest.mark.parametrize(("time", "kind", "why"), NO_TIMES, ids=[str(time) for time, _, _ in NO_TIMES])
WHERE = r"operator KSTREAM-PROCESS\w+-\d+; topic in, partition 0, offset 0; key 'k'\](?m:$)"


class Calling(ps.Processor[str, int, str, int]):
    """Calls a function with its context, store and record."""

    def __init__(self, call: Callable[[Any, Any, Any], object]) -> None:
        self.call = call

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        self.context, self.store = context, context.get_state_store("own")

    def process(self, record: ps.Record[str, int]) -> None:
        self.call(self.context, self.store, record)


class Moving(ps.FixedKeyProcessor[str, int, int]):
    """Forwards its record at another time."""

    def __init__(self, time: Any) -> None:
        self.time = time

    def init(self, context: ps.FixedKeyProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, record: ps.FixedKeyRecord[str, int]) -> None:
        self.context.forward(record.with_timestamp(self.time))


def piped(builder: ps.StreamsBuilder, **config: Any) -> list[Any]:
    """The results of one record at time 7."""
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", STRING, LONG).pipe_input("k", 1, 7)
        return driver.create_output_topic("out", STRING, LONG).read_records_to_list()


def called(call: Callable[[Any, Any, Any], object], own: Any = None) -> list[Any]:
    """The results of a processor that makes ``call`` with context, store and record."""
    builder = ps.StreamsBuilder()
    if own is None:
        own = ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store("own"), STRING, LONG)
    builder.add_state_store(own)
    stream = builder.stream("in", ps.Consumed.with_(STRING, LONG))
    stream.process(lambda: Calling(call), "own").to("out", ps.Produced.with_(STRING, LONG))
    return piped(builder)


def refused(call: Callable[[Any, Any, Any], object], kind: type[Exception], why: str, own: Any = None) -> None:
    with pytest.raises(ps.ProcessingError, match=f"{kind.__name__}: .*{why}.*{WHERE}"):
        called(call, own)


@no_times
class TestOfRecords:
    def test_that_a_processor_makes(self, time: Any, kind: type[Exception], why: str) -> None:
        refused(lambda context, store, record: context.forward(ps.Record("k", 1, time)), kind, why)

    def test_that_a_processor_moves(self, time: Any, kind: type[Exception], why: str) -> None:
        refused(lambda context, store, record: context.forward(record.with_timestamp(time)), kind, why)

    def test_that_a_fixed_key_processor_moves(self, time: Any, kind: type[Exception], why: str) -> None:
        builder = ps.StreamsBuilder()
        stream = builder.stream("in", ps.Consumed.with_(STRING, LONG))
        stream.process_values(lambda: Moving(time)).to("out", ps.Produced.with_(STRING, LONG))
        with pytest.raises(ps.ProcessingError, match=f"{kind.__name__}: .*{why}.*{WHERE}"):
            piped(builder)

    def test_that_a_punctuator_forwards(self, time: Any, kind: type[Exception], why: str) -> None:
        def call(context: Any, store: Any, record: Any) -> None:
            def punctuate(now_ms: int) -> None:
                context.forward(record.with_timestamp(time))

            context.schedule(1, ps.PunctuationType.STREAM_TIME, punctuate)

        with pytest.raises(ps.ProcessingError, match=rf"{kind.__name__}: .*{why}.*operator KSTREAM-PROCESSOR-\d+"):
            called(call)

    def test_that_a_test_pipes_in(self, time: Any, kind: type[Exception], why: str) -> None:
        builder = ps.StreamsBuilder()
        builder.stream("in", ps.Consumed.with_(STRING, LONG)).to("out", ps.Produced.with_(STRING, LONG))
        with ps.TopologyTestDriver(builder.build()) as driver:
            source = driver.create_input_topic("in", STRING, LONG)
            if time is not None:  # that is the automatic one
                with pytest.raises(kind, match="timestamp_ms"):
                    source.pipe_input("k", 1, time)
            assert driver.create_output_topic("out", STRING, LONG).is_empty()


@no_times
class TestOfStores:
    def test_with_values_and_timestamps(self, time: Any, kind: type[Exception], why: str) -> None:
        supplier = ps.Stores.in_memory_key_value_store("own")
        own = ps.Stores.timestamped_key_value_store_builder(supplier, STRING, LONG)
        refused(lambda context, store, record: store.put("a", ps.ValueAndTimestamp(1, time)), kind, why, own)

    def test_with_values_timestamps_and_headers(self, time: Any, kind: type[Exception], why: str) -> None:
        supplier = ps.Stores.in_memory_key_value_store("own")
        own = ps.Stores.timestamped_key_value_store_with_headers_builder(supplier, STRING, LONG)
        refused(lambda context, store, record: store.put("a", ps.ValueTimestampHeaders(1, time)), kind, why, own)

    def test_with_windows_and_timestamps(self, time: Any, kind: type[Exception], why: str) -> None:
        supplier = ps.Stores.in_memory_window_store("own", 1000, 10, False)
        own = ps.Stores.timestamped_window_store_builder(supplier, STRING, LONG)
        refused(lambda context, store, record: store.put("a", ps.ValueAndTimestamp(1, time), 0), kind, why, own)

    def test_with_versions(self, time: Any, kind: type[Exception], why: str) -> None:
        own = ps.Stores.versioned_key_value_store_builder(
            ps.Stores.persistent_versioned_key_value_store("own", 1000), STRING, LONG
        )
        refused(lambda context, store, record: store.put("a", 1, time), kind, why, own)


@pytest.mark.parametrize(
    ("time", "kind"), [(-5, ValueError), (1 << 63, ValueError), (True, TypeError), ("7", TypeError)]
)
class TestOfWindows:
    def test_a_window_has_a_start(self, time: Any, kind: type[Exception]) -> None:
        own = ps.Stores.window_store_builder(ps.Stores.in_memory_window_store("own", 1000, 10, False), STRING, LONG)
        refused(lambda context, store, record: store.put("a", 1, time), kind, "store own: ", own)

    def test_a_session_has_a_start_and_an_end(self, time: Any, kind: type[Exception]) -> None:
        own = ps.Stores.session_store_builder(ps.Stores.in_memory_session_store("own", 1000), STRING, LONG)
        begins = ps.Windowed("a", ps.Window(time, 8))
        refused(lambda context, store, record: store.put(begins, 1), kind, "store own: ", own)
        ends = ps.Windowed("a", ps.Window(0, time))
        refused(lambda context, store, record: store.put(ends, 1), kind, "store own: ", own)


@pytest.mark.parametrize("time", [1.5, True, "7", None, 1 << 63])
def test_a_time_that_an_extractor_gets_wrong_is_reported_with_source_and_record(time: Any) -> None:
    builder = ps.StreamsBuilder()
    consumed = ps.Consumed.with_(STRING, LONG).with_timestamp_extractor(lambda *given: time)
    builder.stream("in", consumed).to("out", ps.Produced.with_(STRING, LONG))
    where = r"\[operator KSTREAM-SOURCE-0000000000; topic in, partition 0, offset 0; key 'k'\]"
    with pytest.raises(ps.InvalidTimestampError, match=f"the timestamp extractor failed: .*: its result .*{where}"):
        piped(builder)


def test_a_negative_time_of_an_extractor_drops_the_record() -> None:
    negative: Any = numpy.int64(-3)
    builder = ps.StreamsBuilder()
    consumed = ps.Consumed.with_(STRING, LONG).with_timestamp_extractor(lambda *given: negative)
    builder.stream("in", consumed).to("out", ps.Produced.with_(STRING, LONG))
    assert piped(builder) == []


def test_whole_numbers_of_numpy_are_times_and_become_ints() -> None:
    [result] = called(lambda context, store, record: context.forward(record.with_timestamp(numpy.int64(9))))
    assert result.timestamp == 9
    assert type(result.timestamp) is int


def test_an_object_that_only_resembles_a_record_is_not_forwarded() -> None:
    record: Any = ps.TestRecord("k", 1, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ps.ProcessingError, match=r"forward takes a Record, such as record\.with_value"):
        called(lambda context, store, _: context.forward(record))
