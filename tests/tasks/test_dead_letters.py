"""Bad records keep their place until their turn; their dead letters have what was read."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import DeserializationError, ProcessingError, ProductionError
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serdes
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Produced
from tests.tasks.bench import LONGS, STRINGS, Bench, Sent

DLQ = {
    "errors.dead.letter.queue.topic.name": "letters",
    "deserialization.exception.handler": ps.LogAndContinue(),
    "processing.exception.handler": ps.LogAndContinue(),
}
OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())


def good(value: str) -> str:
    if "bad" in value:
        raise ValueError(f"no good: {value}")
    return value


def copying(config: dict[str, Any] | None = None) -> Bench:
    """Longs are copied: other bytes cannot be decoded."""
    builder = StreamsBuilder()
    longs = Produced.with_(Serdes.string(), Serdes.long())
    builder.stream("in", LONGS).map_values(lambda value: value + 1).to("out", longs)
    return Bench(builder, DLQ | (config or {}))


def shown(sent: list[Sent]) -> list[tuple[str, bytes | None, bytes | None, int]]:
    return [(each.topic, each.key, each.value, each.timestamp) for each in sent]


def letters(sent: list[Sent]) -> list[Sent]:
    return [each for each in sent if each.topic == "letters"]


class TestUndecodable:
    def test_a_bad_record_waits_for_its_turn(self) -> None:
        bench = copying()
        bench.add("in", ("a", 1, 10), ("b", b"bad", 11), ("c", 3, 12))
        assert (bench.collector.sent, bench.dropped) == ([], 0)
        assert bench.task.offsets() == {}
        bench.task.process(1, 0)
        bench.run()
        assert [each.topic for each in bench.collector.sent] == ["out", "letters", "out"]
        assert bench.offset("in") == 3
        assert bench.dropped == 1

    def test_the_letter_of_an_undecodable_record_is_the_record_as_it_was_read(self) -> None:
        bench = copying()
        ((letter),) = letters(bench.feed("in", ("b", b"bad", 11, [("trace", b"7")]), offset=5))
        assert (letter.key, letter.value, letter.timestamp, letter.partition) == (b"b", b"bad", 11, -1)
        headers = dict(letter.headers or ())
        assert (headers["trace"], headers["__streams.errors.topic"]) == (b"7", b"in")
        assert headers["__streams.errors.offset"] == b"5"

    @pytest.mark.parametrize(
        "rows", ["gb", "bg", "b", "bb", "gbbg", "bgb", "bbbgggbbb"], ids=lambda rows: f"good and bad: {rows}"
    )
    def test_each_undecodable_record_has_one_letter_and_all_records_are_done(self, rows: str) -> None:
        bench = copying()
        for first in (0, len(rows)):
            bench.add("in", *[("k", n if row == "g" else b"bad", n) for n, row in enumerate(rows, first)])
        bench.run()
        offsets = [
            int(dict(each.headers or ())["__streams.errors.offset"] or b"") for each in letters(bench.collector.sent)
        ]
        assert offsets == [n for n, row in enumerate(rows + rows) if row == "b"]
        assert bench.offset("in") == 2 * len(rows)
        assert bench.task.queued(TopicPartition("in", 0)) == 0

    def test_failing_writes_the_letter_and_commits_nothing_past_the_record(self) -> None:
        bench = copying({"deserialization.exception.handler": ps.LogAndFail()})
        bench.add("in", ("a", 1, 10), ("b", b"bad", 11), ("c", 3, 12))
        with pytest.raises(DeserializationError, match=r"the value cannot be decoded.*offset 1"):
            bench.run()
        assert [each.topic for each in bench.collector.sent] == ["out", "letters"]
        assert bench.offset("in") == 1

    def test_the_other_partition_comes_first_if_its_records_are_awaited(self) -> None:
        """The turn of a bad record is that of the head of its partition: no other can be older for certain."""
        builder = StreamsBuilder()
        builder.stream("left", LONGS).merge(builder.stream("right", LONGS)).to(
            "out", Produced.with_(Serdes.string(), Serdes.long())
        )
        bench = Bench(builder, DLQ)
        bench.task.set_caught_up(TopicPartition("right", 0), False)
        bench.add("left", ("k", b"bad", 1))
        assert bench.run() == 0
        assert bench.collector.sent == []
        bench.add("right", ("k", 1, 1))
        bench.run()
        assert [each.topic for each in bench.collector.sent] == ["letters", "out"]


class TestProcessing:
    def bench(self, build: Any, config: dict[str, Any] | None = None) -> Bench:
        builder = StreamsBuilder()
        build(builder.stream("in", STRINGS))
        return Bench(builder, DLQ | (config or {}))

    def test_the_letter_has_the_bytes_of_the_source_whatever_became_of_them(self) -> None:
        bench = self.bench(lambda s: s.select_key(lambda k, v: k + k).map_values(good).to("out", OUT))
        assert shown(bench.feed("in", ("a", "fine", 1), ("b", "bad", 2))) == [
            ("out", b"aa", b"fine", 1),
            ("letters", b"b", b"bad", 2),
        ]

    def test_bytes_stay_although_a_result_was_sent_before(self) -> None:
        """Kafka Streams forgets them with the first result that a record has."""

        def build(stream: Any) -> None:
            stream.to("copy", OUT)
            stream.map_values(good).to("out", OUT)

        assert shown(self.bench(build).feed("in", ("b", "bad", 2))) == [
            ("copy", b"b", b"bad", 2),
            ("letters", b"b", b"bad", 2),
        ]

    def test_each_error_of_a_record_has_a_letter(self) -> None:
        bench = self.bench(lambda s: s.flat_map_values(str.split).map_values(good).to("out", OUT))
        assert shown(letters(bench.feed("in", ("b", "x bad y bad", 2)))) == [("letters", b"b", b"x bad y bad", 2)] * 2
        assert bench.dropped == 2

    def test_behind_a_cache_the_letter_is_of_the_last_record_of_the_key(self) -> None:
        def build(stream: Any) -> None:
            table = stream.group_by_key().reduce(lambda old, new: new, Materialized.as_("last"))
            table.to_stream().map_values(good).to("out", OUT)

        bench = self.bench(build)
        bench.feed("in", ("b", "fine", 1), ("b", "bad", 2, [("trace", b"7")]), ("c", "last", 3))
        bench.feed("in", ("d", "more", 4))
        ((letter),) = letters(bench.commit())
        assert (letter.key, letter.value, letter.timestamp) == (b"b", b"bad", 2)
        headers = dict(letter.headers or ())
        assert (headers["trace"], headers["__streams.errors.offset"]) == (b"7", b"1")

    def test_a_processor_that_sends_other_headers_and_another_time_changes_the_letter(self) -> None:
        class Changing(ps.Processor[str, str, str, str]):
            def init(self, context: ps.ProcessorContext[str, str]) -> None:
                self.context = context

            def process(self, record: ps.Record[str, str]) -> None:
                self.context.forward(record.with_timestamp(99).with_headers([("mine", b"1")]))

        bench = self.bench(lambda s: s.process(Changing).map_values(good).to("out", OUT))
        ((letter),) = bench.feed("in", ("b", "bad", 2, [("trace", b"7")]))
        assert (letter.value, letter.timestamp, (letter.headers or ())[0]) == (b"bad", 99, ("mine", b"1"))

    @pytest.mark.parametrize("forwards", [False, True])
    def test_a_punctuator_has_a_letter_of_nothing(self, forwards: bool) -> None:
        class Ticking(ps.Processor[str, str, str, str]):
            def init(self, context: ps.ProcessorContext[str, str]) -> None:
                def tick(now: int) -> None:
                    context.forward(ps.Record("pk", good("fine bad"[5 * (not forwards) :]), now))

                context.schedule(5, ps.PunctuationType.STREAM_TIME, tick)

            def process(self, record: ps.Record[str, str]) -> None: ...

        bench = self.bench(lambda s: s.process(Ticking).map_values(lambda v: good("bad")).to("out", OUT))
        ((letter),) = bench.feed("in", ("b", "v", 10, [("trace", b"7")]))
        assert (letter.key, letter.value, letter.timestamp) == (None, None, 10)
        headers = dict(letter.headers or ())
        assert headers["__streams.errors.topic"] is None
        assert "trace" not in headers

    def test_a_result_that_cannot_be_serialised_fails_with_a_letter(self) -> None:
        bench = self.bench(lambda s: s.map_values(len).to("out", OUT))
        bench.add("in", ("b", "v", 10))
        with pytest.raises(ProductionError, match="cannot be serialised"):
            bench.run()
        assert shown(bench.collector.sent) == [("letters", b"b", b"v", 10)]

    def test_failing_writes_the_letter(self) -> None:
        bench = self.bench(lambda s: s.map_values(good), {"processing.exception.handler": ps.LogAndFail()})
        bench.add("in", ("b", "bad", 10))
        with pytest.raises(ProcessingError):
            bench.run()
        assert shown(bench.collector.sent) == [("letters", b"b", b"bad", 10)]


class Tolerant(ps.ProductionExceptionHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def handle_error(self, context: Any, record: Any, error: Exception) -> ps.Response:
        raise AssertionError

    def handle_serialization_error(
        self,
        context: ps.ErrorHandlerContext,
        record: ps.ProducerRecord[Any, Any],
        error: Exception,
        origin: ps.SerializationExceptionOrigin,
    ) -> ps.Response:
        self.seen.append((context.processor_node_id, context.offset, record.topic, record.key, record.value, origin))
        return ps.Response.resume([ps.ProducerRecord("own", context.source_raw_key, context.source_raw_value)])


@pytest.mark.parametrize("origin", ps.SerializationExceptionOrigin)
def test_a_production_handler_drops_the_result_only(origin: ps.SerializationExceptionOrigin) -> None:
    handler, builder = Tolerant(), StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    key = origin is ps.SerializationExceptionOrigin.KEY
    lengths: ps.KStream[Any, Any] = stream.map(lambda k, v: (len(k), v) if key else (k, len(v)))
    written: Produced[Any, Any] = Produced.as_("sink")
    lengths.to("out", written.with_key_serde(Serdes.string()).with_value_serde(Serdes.string()))
    stream.to("copy", OUT)
    bench = Bench(builder, {"production.exception.handler": handler})
    sent = bench.feed("in", ("b", "v", 10), offset=7)
    assert [(each.topic, each.key, each.value) for each in sent] == [("own", b"b", b"v"), ("copy", b"b", b"v")]
    assert handler.seen == [("sink", 7, "out", *((1, "v") if key else ("b", 1)), origin)]
    assert (bench.dropped, bench.offset("in")) == (1, 8)


def test_a_refusal_that_arrives_while_a_letter_is_sent_is_not_that_of_the_letter() -> None:
    bench, earlier = copying(), ProductionError("too large", topic="out")
    earlier.late = True

    def send(*_: Any) -> None:
        raise earlier

    bench.state_manager.context.failures.send = send
    bench.add("in", ("b", b"bad", 10))
    with pytest.raises(ProductionError) as raised:
        bench.run()
    assert raised.value is earlier


def test_retry_counts_as_fail_if_the_error_cannot_pass() -> None:
    class Stubborn(ps.ProcessingExceptionHandler):
        def handle_error(self, context: Any, record: Any, error: Exception) -> ps.Response:
            return ps.Response.retry()

    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(good)
    bench = Bench(builder, {"processing.exception.handler": Stubborn()})
    bench.add("in", ("b", "bad", 10))
    with pytest.raises(ProcessingError, match="answered RETRY: that counts as FAIL"):
        bench.run()


class TestGlobalStores:
    def driver(self, **config: Any) -> ps.TopologyTestDriver:
        class Keeping(ps.Processor[str, str, None, None]):
            def process(self, record: ps.Record[str, str]) -> None:
                good(record.value)

        builder = StreamsBuilder()
        store = ps.Stores.key_value_store_builder(
            ps.Stores.in_memory_key_value_store("kept"), Serdes.string(), Serdes.string()
        )
        builder.add_global_store(store, "g", STRINGS, Keeping)
        builder.global_table("numbers", Consumed.with_(Serdes.string(), Serdes.long()))
        builder.stream("in", STRINGS).to("out", OUT)
        return ps.TopologyTestDriver(builder.build(), DLQ | {key.replace("_", "."): on for key, on in config.items()})

    def test_an_undecodable_record_of_a_global_store_is_dropped_without_a_letter(self) -> None:
        with self.driver() as driver:
            driver.pipe("numbers", b"k", b"bad", 1)
            assert driver.metrics().dropped_records_total == 1
            assert driver.produced_topic_names() == set()

    def test_an_error_of_a_processor_of_a_global_store_is_not_offered_to_the_handler(self) -> None:
        with self.driver() as driver, pytest.raises(ProcessingError, match="no good: bad"):
            driver.pipe("g", b"k", b"bad", 1)

    def test_an_error_of_a_processor_of_a_global_store_is_offered_if_that_is_configured(self) -> None:
        with self.driver(processing_exception_handler_global_enabled=True) as driver:
            driver.pipe("g", b"k", b"bad", 1)
            assert driver.metrics().dropped_records_total == 1
            assert driver.produced_topic_names() == set()


def test_the_test_driver_shows_the_letters() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(good).to("out", OUT)
    with ps.TopologyTestDriver(builder.build(), DLQ) as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("b", "bad", 11)
        (letter,) = driver.create_output_topic("letters", Serdes.string(), Serdes.string()).read_records_to_list()
        assert (letter.key, letter.value, letter.timestamp) == ("b", "bad", 11)
        assert dict(letter.headers)["__streams.errors.message"] == b"no good: bad"
        assert driver.metrics().dead_letters == 1
