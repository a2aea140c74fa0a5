"""A record that cannot be decoded, has no time, or fits no serde: the names in the error, and what is dropped."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from penstock.common.errors import (
    DeserializationError,
    InvalidTimestampError,
    ProcessingError,
    ProductionError,
    SerializationError,
)
from penstock.common.extractors import LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp
from penstock.common.handlers import LogAndContinue
from penstock.common.serdes import Serdes
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Produced
from tests.tasks.bench import LONGS, STRINGS, Bench, Resume, values

STRING_OUT: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())


def _uncached(store: str) -> Materialized[Any, Any]:
    return Materialized.as_(store).with_value_serde(Serdes.string()).with_caching_disabled()


class TestUndecodableRecords:
    ROWS: ClassVar = [("k", 1, 1), ("k", 2, 2), ("k", b"short", 3), ("k", 4, 4)]

    @staticmethod
    def bench(**config: Any) -> Bench:
        builder = StreamsBuilder()
        doubled = builder.stream("in", LONGS).map_values(lambda v: str(2 * v))
        doubled.to("out", STRING_OUT)
        return Bench(builder, config)

    def continuing(self) -> Bench:
        return self.bench(**{"deserialization.exception.handler": LogAndContinue()})

    def test_those_before_it_are_processed_and_it_is_named(self) -> None:
        bench = self.bench()
        bench.add("in", *self.ROWS, offset=100)
        with pytest.raises(DeserializationError) as caught:
            bench.run()
        assert values(bench.collector.take()) == ["2", "4"]
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.key) == ("in", 0, 102, b"k")
        assert "8 bytes expected, 5 received" in str(error)
        assert isinstance(error.__cause__, SerializationError)

    def test_a_bad_key_is_distinguished_from_a_bad_value(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(Serdes.long(), Serdes.string())).peek(print)
        bench = Bench(builder)
        bench.add("in", (b"?", "v", 0))
        with pytest.raises(DeserializationError, match="the key cannot be decoded"):
            bench.run()

    def test_nothing_behind_it_is_processed_even_from_later_batches(self) -> None:
        bench = self.bench()
        bench.add("in", *self.ROWS)
        bench.add("in", ("k", 5, 5))
        with pytest.raises(DeserializationError):
            bench.run()
        assert values(bench.collector.take()) == ["2", "4"]

    def test_log_and_continue_drops_it_alone(self) -> None:
        bench = self.continuing()
        assert values(bench.feed("in", *self.ROWS)) == ["2", "4", "8"]
        assert bench.dropped == 1
        assert bench.offset("in") == 4

    def test_headers_stay_with_their_records_around_a_dropped_one(self) -> None:
        rows = [(*row, [("n", str(number).encode())]) for number, row in enumerate(self.ROWS)]
        sent = self.continuing().feed("in", *rows)
        assert [each.headers for each in sent] == [[("n", b"0")], [("n", b"1")], [("n", b"3")]]

    def test_offsets_go_past_dropped_records_at_the_end_of_a_batch(self) -> None:
        bench = self.continuing()
        bench.feed("in", ("k", 1, 1), ("k", b"?", 2), ("k", b"?", 3))
        assert bench.offset("in") == 3

    def test_offsets_go_past_a_batch_of_which_all_is_dropped(self) -> None:
        bench = self.continuing()
        bench.feed("in", ("k", b"?", 1), ("k", b"?", 2))
        assert bench.offset("in") == 2
        assert bench.dropped == 2

    def test_a_dropped_batch_behind_one_that_waits_counts_when_that_is_done(self) -> None:
        bench = self.continuing()
        bench.add("in", ("k", 1, 1), ("k", 2, 2))
        bench.add("in", ("k", b"?", 3))
        bench.task.process(1, 0)
        assert bench.offset("in") == 1
        bench.run()
        assert bench.offset("in") == 3

    def test_a_null_is_not_decoded(self) -> None:
        builder = StreamsBuilder()
        seen: list[tuple[Any, Any]] = []
        builder.stream("in", LONGS).peek(lambda k, v: seen.append((k, v)))
        Bench(builder).feed("in", (None, None, 0))
        assert seen == [(None, None)]


class TestTimestamps:
    @staticmethod
    def bench(extractor: Any = None) -> Bench:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).to("out", STRING_OUT)
        return Bench(builder, {"default.timestamp.extractor": extractor} if extractor else None)

    def test_a_negative_one_ends_the_task_by_default(self) -> None:
        bench = self.bench()
        bench.add("in", ("k", "a", 1), ("k", "b", -1), offset=10)
        with pytest.raises(InvalidTimestampError) as caught:
            bench.run()
        assert values(bench.collector.take()) == ["a"]
        assert (caught.value.topic, caught.value.offset) == ("in", 11)

    def test_log_and_skip_drops_and_counts_it(self) -> None:
        bench = self.bench(LogAndSkipOnInvalidTimestamp())
        assert values(bench.feed("in", ("k", "a", 1), ("k", "b", -1), ("k", "c", 2))) == ["a", "c"]
        assert bench.dropped == 1
        assert bench.offset("in") == 3

    def test_use_partition_time_takes_the_largest_time_so_far(self) -> None:
        bench = self.bench(UsePartitionTimeOnInvalidTimestamp())
        sent = bench.feed("in", ("k", "a", 7), ("k", "b", 3), ("k", "c", -1))
        assert [each.timestamp for each in sent] == [7, 3, 7]

    def test_use_partition_time_knows_of_records_that_still_wait(self) -> None:
        bench = self.bench(UsePartitionTimeOnInvalidTimestamp())
        bench.add("in", ("k", "a", 7))
        bench.add("in", ("k", "b", -1))
        bench.run()
        assert [each.timestamp for each in bench.collector.take()] == [7, 7]

    def test_use_partition_time_without_any_is_an_error(self) -> None:
        bench = self.bench(UsePartitionTimeOnInvalidTimestamp())
        bench.add("in", ("k", "b", -1))
        with pytest.raises(InvalidTimestampError):
            bench.run()

    def test_an_extractor_sees_the_decoded_record_and_where_it_came_from(self) -> None:
        calls: list[tuple[Any, ...]] = []

        def extract(record: Any, broker_timestamp: int, partition_time: int, metadata: Any) -> int:
            calls.append((record.key, record.value, broker_timestamp, partition_time, tuple(metadata)))
            return int(record.value)

        sent = self.bench(extract).feed("in", ("k", "30", 5), ("k", "20", -1))
        assert [each.timestamp for each in sent] == [30, 20]
        assert calls == [("k", "30", 5, -1, ("in", 0, 0)), ("k", "20", -1, 30, ("in", 0, 1))]

    def test_a_negative_result_of_an_extractor_drops_the_record(self) -> None:
        bench = self.bench(lambda record, own, time, metadata: -3)
        assert bench.feed("in", ("k", "v", 5)) == []
        assert (bench.dropped, bench.offset("in")) == (1, 1)

    @pytest.mark.parametrize("result", [None, 1.5, "7"])
    def test_an_extractor_that_returns_no_int_is_named_with_the_record(self, result: Any) -> None:
        bench = self.bench(lambda record, own, time, metadata: result)
        bench.add("in", ("k", "v", 5), offset=9)
        with pytest.raises(InvalidTimestampError, match=r"milliseconds.*offset 9"):
            bench.run()

    def test_an_extractor_that_raises_is_named_with_the_record(self) -> None:
        bench = self.bench(lambda record, own, time, metadata: record.value["when"])
        bench.add("in", ("k", "v", 5), offset=9)
        with pytest.raises(InvalidTimestampError, match=r"TypeError.*offset 9") as caught:
            bench.run()
        assert isinstance(caught.value.__cause__, TypeError)


class TestSerdesThatDoNotFit:
    def test_a_result_the_sink_cannot_write_is_a_production_error(self) -> None:
        builder = StreamsBuilder()
        builder.stream("in", STRINGS).map_values(len).to("out", STRING_OUT)
        bench = Bench(builder, {"processing.exception.handler": Resume()})
        bench.add("in", ("k", "v", 1), offset=3)
        with pytest.raises(ProductionError, match="topic out") as caught:
            bench.run()
        error = caught.value
        assert error.operator is not None
        assert error.operator.startswith("KSTREAM-SINK-")
        assert (error.topic, error.offset, error.key) == ("in", 3, "k")
        assert isinstance(error.__cause__, TypeError)

    @pytest.mark.parametrize("how", ["count", "reduce", "aggregate"])
    @pytest.mark.parametrize("caching", [True, False])
    def test_a_key_that_an_aggregate_cannot_write_names_operator_and_record(self, how: str, caching: bool) -> None:
        builder = StreamsBuilder()
        stream: KStream[Any, Any] = builder.stream("in", STRINGS)
        grouped = stream.group_by_key(Grouped.with_(Serdes.long(), Serdes.string()))
        kept: Materialized[Any, Any] = Materialized.with_(Serdes.long(), Serdes.string())
        kept = kept if caching else kept.with_caching_disabled()
        if how == "count":
            grouped.count(kept.with_value_serde(Serdes.long()))
        elif how == "reduce":
            grouped.reduce(lambda a, v: v, kept)
        else:
            grouped.aggregate(str, lambda k, v, a: v, kept)
        stream.peek(lambda k, v: None)
        bench = Bench(builder)
        bench.add("in", ("k", "v", 1), offset=3)
        with pytest.raises(ProcessingError, match=r"operator KSTREAM-\w+-\d+; topic in, partition 0, offset 3"):
            bench.run()

    def test_a_value_that_an_uncached_store_cannot_write_names_operator_and_record(self) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", STRINGS).group_by_key()
        grouped.aggregate(int, lambda k, v, a: a + 1, _uncached("wrong"))
        bench = Bench(builder)
        bench.add("in", ("k", "v", 1))
        with pytest.raises(ProcessingError, match=r"operator KSTREAM-AGGREGATE-.*offset 0"):
            bench.run()

    def test_a_value_that_a_cached_store_cannot_write_names_store_and_key_at_the_commit(self) -> None:
        builder = StreamsBuilder()
        grouped = builder.stream("in", STRINGS).group_by_key()
        wrong: Materialized[Any, Any] = Materialized.as_("wrong").with_value_serde(Serdes.string())
        grouped.aggregate(int, lambda k, v, a: a + 1, wrong)
        bench = Bench(builder)
        bench.feed("in", ("k", "v", 1))
        with pytest.raises(SerializationError, match="store wrong: the value of key b'k'"):
            bench.flush()

    def test_a_partition_that_the_topic_does_not_have_names_the_sink(self) -> None:
        builder = StreamsBuilder()
        how = STRING_OUT.with_stream_partitioner(lambda topic, key, value, partitions: 4)
        builder.stream("in", STRINGS).to("out", how)
        bench = Bench(builder, partitions=4)
        bench.add("in", ("k", "v", 1))
        with pytest.raises(ProcessingError, match=r"chose 4, but topic out has 4 partitions.*KSTREAM-SINK-"):
            bench.run()
