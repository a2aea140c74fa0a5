"""The keys and values that pass as bytes, recognised by the calls that their serdes get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import ConfigError, DeserializationError, ProcessingError
from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.handlers import LogAndFail, ProcessingExceptionHandler
from penstock.common.records import Record, RecordMetadata
from penstock.common.serdes import Serde, Serdes
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Joined, Produced
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.windows import EmitStrategy, SlidingWindows, TimeWindows
from penstock.topology.processor_api.processor import Processor
from tests.tasks.bench import STRINGS, Bench, Resume, counting_serde, number, values

LOSSY = Serde("lossy", str.encode, bytes.decode)  # equal to string, but does not promise to be lossless


class Decodes:
    """The sides (key, value) of the records of topic "in" that a topology decodes."""

    def __init__(self, inner: Serde[Any] | None = None) -> None:
        self.key, self.key_calls = counting_serde(inner or Serdes.string())
        self.value, self.value_calls = counting_serde(inner or Serdes.string())
        self.builder = StreamsBuilder()
        self.stream: KStream[Any, Any] = self.builder.stream("in", Consumed.with_(self.key, self.value))

    def feed(self, *rows: tuple[Any, ...]) -> Bench:
        self.bench = Bench(self.builder, {"default.key.serde": self.key, "default.value.serde": self.value})
        self.bench.add("in", *(rows or (("k", "v", 1),)))
        self.bench.run()
        self.bench.commit()
        return self.bench

    @property
    def decoded(self) -> str:
        self.feed()
        sides = {"key": self.key_calls, "value": self.value_calls}
        return " ".join(side for side, calls in sides.items() if any(call.startswith("deserialize") for call in calls))

    def produced(self) -> Produced[Any, Any]:
        return Produced.with_(self.key, self.value)


class Nothing(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None: ...


def copied(d: Decodes, s: KStream[Any, Any]) -> Any:
    s.to("out", d.produced())


def in_windows(s: KStream[Any, Any], size_ms: int = 5) -> Any:
    return s.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(size_ms))


def in_sliding_windows(s: KStream[Any, Any]) -> Any:
    return s.group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(5))


def in_sessions(s: KStream[Any, Any]) -> Any:
    return s.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5))


def windowed_out(d: Decodes, s: KStream[Any, Any]) -> None:
    s.to("out", Produced.with_(WindowedSerdes.time_windowed_serde_from(d.key, 5), Serdes.long()))


def sessions_out(d: Decodes, s: KStream[Any, Any]) -> None:
    s.to("out", Produced.with_(WindowedSerdes.session_windowed_serde_from(d.key), Serdes.long()))


def seen_and_out(d: Decodes, table: Any) -> None:
    table.to_stream().peek(print)
    sessions_out(d, table.to_stream())


CASES: dict[str, tuple[str, Callable[[Decodes, KStream[Any, Any]], Any]]] = {
    "copying": ("", copied),
    "count": ("", lambda d, s: s.group_by_key().count()),
    "count and sink": ("", lambda d, s: s.group_by_key().count() and copied(d, s)),
    "map_values": ("value", lambda d, s: s.map_values(lambda v: v).to("out", d.produced())),
    "map_values with key": ("key value", lambda d, s: s.map_values(lambda k, v: k + v).to("out", d.produced())),
    "flat_map_values": ("value", lambda d, s: s.flat_map_values(lambda v: [v]).to("out", d.produced())),
    "reduce": ("value", lambda d, s: s.group_by_key().reduce(lambda a, v: v)),
    "aggregate": ("key value", lambda d, s: s.group_by_key().aggregate(str, lambda k, v, a: v)),
    "filter by key": ("key value", lambda d, s: s.filter(lambda k, v: k != "x").to("out", d.produced())),
    "filter by value": ("value", lambda d, s: s.filter(lambda v: v != "x").to("out", d.produced())),
    "filter_not by value": ("value", lambda d, s: s.filter_not(lambda v: v == "x").to("out", d.produced())),
    "filter by value that takes the key": ("key value", lambda d, s: s.filter(lambda k, v: v).to("out", d.produced())),
    "peek": ("key value", lambda d, s: s.peek(print)),
    "peek at values": ("value", lambda d, s: s.peek(lambda v: None)),
    "for_each value": ("value", lambda d, s: s.for_each(lambda v: None)),
    "for_each key and value": ("key value", lambda d, s: s.for_each(lambda k, v: None)),
    "a filtered table": ("value", lambda d, s: s.to_table(Materialized.as_("rows")).filter(lambda v: bool(v))),
    "a table filtered by key": ("key value", lambda d, s: s.to_table().filter(lambda k, v: bool(k))),
    "a table that nobody looks into": ("", lambda d, s: copied(d, s.to_table().to_stream())),
    "branches by key and by value": (
        "key value",
        lambda d, s: s.split().branch(lambda v: bool(v)).branch(lambda k, v: bool(k)).no_default_branch(),
    ),
    "branches by value": ("value", lambda d, s: s.split().branch(lambda v: bool(v)).no_default_branch()),
    "select_key": ("key value", lambda d, s: s.select_key(lambda k, v: v).to("out", d.produced())),
    "select_key by value": ("value", lambda d, s: s.select_key(lambda v: v).to("out", d.produced())),
    "group_by value": ("value", lambda d, s: s.group_by(lambda v: v).count()),
    "a table's values as keys": ("value", lambda d, s: s.to_table().to_stream(lambda v: v).to("out", d.produced())),
    "process": ("key value", lambda d, s: s.process(Nothing)),
    "table": ("value", lambda d, s: s.to_table(Materialized.as_("rows"))),
    "repartition": ("", lambda d, s: s.repartition()),
    "topic chosen": ("key value", lambda d, s: s.to(lambda k, v, c: "out", d.produced())),
    "partition chosen": (
        "key value",
        lambda d, s: s.to("out", d.produced().with_stream_partitioner(lambda t, k, v, n: 0)),
    ),
    "sink with another value serde": ("value", lambda d, s: s.to("out", Produced.with_(d.key, LOSSY))),
    "sink with another key serde": ("key", lambda d, s: s.to("out", Produced.with_(LOSSY, d.value))),
    "count under another key serde": ("key", lambda d, s: s.group_by_key(Grouped.with_(LOSSY, d.value)).count()),
    "count below a peek": ("key value", lambda d, s: s.peek(print).group_by_key().count()),
    "a peek beside a sink": ("key value", lambda d, s: s.peek(print) and copied(d, s)),
    "what follows a count": ("", lambda d, s: s.group_by_key().count().to_stream().map_values(lambda n: n)),
    "who looks at keys behind a count": ("key", lambda d, s: s.group_by_key().count().to_stream().peek(print)),
    "a count in windows and its sink": ("", lambda d, s: windowed_out(d, in_windows(s).count().to_stream())),
    "a count in sliding windows and its sink": (
        "",
        lambda d, s: windowed_out(d, in_sliding_windows(s).count().to_stream()),
    ),
    "a count of sessions and its sink": ("", lambda d, s: sessions_out(d, in_sessions(s).count().to_stream())),
    "sessions filtered by value": ("", lambda d, s: sessions_out(d, in_sessions(s).count().filter(bool).to_stream())),
    "sessions without a cache": (
        "",
        lambda d, s: sessions_out(d, in_sessions(s).count(Materialized.as_("s").with_caching_disabled()).to_stream()),
    ),
    "sessions when they close": (
        "",
        lambda d, s: sessions_out(d, in_sessions(s).emit_strategy(EmitStrategy.on_window_close()).count().to_stream()),
    ),
    "who looks at the keys of sessions": ("key", lambda d, s: in_sessions(s).count().to_stream().peek(print)),
    "a sink beside who looks at the keys of sessions": (
        "key",
        lambda d, s: seen_and_out(d, in_sessions(s).count()),
    ),
    "sessions in a table of their own": (
        "",
        lambda d, s: sessions_out(d, in_sessions(s).count().filter(bool, Materialized.as_("kept")).to_stream()),
    ),
    "windows under a serde of other windows": (
        "key",
        lambda d, s: windowed_out(d, in_windows(s, 6).count().to_stream()),
    ),
    "sessions under another serde of keys": (
        "key",
        lambda d, s: (
            in_sessions(s)
            .count()
            .to_stream()
            .to("out", Produced.with_(WindowedSerdes.session_windowed_serde_from(LOSSY), Serdes.long()))
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_looked_at_is_decoded(name: str) -> None:
    expected, build = CASES[name]
    d = Decodes()
    build(d, d.stream)
    assert d.decoded == expected


@pytest.mark.parametrize(("key", "reported"), [("k", "k"), (b"\xff", b"\xff"), (None, None)])
def test_an_error_reports_the_key_as_users_know_it_although_the_function_is_not_given_it(
    key: Any, reported: Any
) -> None:
    d = Decodes()
    d.stream.filter(lambda value: 1 // 0 > 0).to("out", d.produced())
    with pytest.raises(ProcessingError) as raised:
        d.feed((key, "v", 1))
    assert raised.value.key == reported


def test_a_handler_that_forgets_to_answer_drops_nothing() -> None:
    class Forgetful(ProcessingExceptionHandler):
        def handle_error(self, context: Any, record: Any, error: Exception) -> Any:
            return None

    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(lambda value: 1 // 0)
    bench = Bench(builder, {"processing.exception.handler": Forgetful()})
    bench.add("in", ("k", "v", 1))
    with pytest.raises(ConfigError, match="Forgetful returned None: return Response"):
        bench.run()
    assert bench.dropped == 0


def test_a_serde_that_is_not_lossless_is_always_used() -> None:
    d = Decodes(LOSSY)
    copied(d, d.stream)
    assert d.decoded == "key value"


def test_an_extractor_of_the_users_sees_decoded_records() -> None:
    seen: list[Any] = []

    def extract(record: Any, own: int, time: int, metadata: Any) -> int:
        seen.append((record.key, record.value))
        return own

    builder = StreamsBuilder()
    builder.stream("in", STRINGS.with_timestamp_extractor(extract)).to(
        "out", Produced.with_(Serdes.string(), Serdes.string())
    )
    assert values(Bench(builder).feed("in", ("k", "v", 1))) == ["v"]
    assert seen == [("k", "v")]


def test_an_extractor_derived_from_ours_sees_decoded_records() -> None:
    class FromValue(FailOnInvalidTimestamp):
        def __call__(
            self, record: Record[Any, Any], broker_timestamp: int, partition_time: int, metadata: RecordMetadata
        ) -> int:
            return int(record.value.split(",")[1])

    builder = StreamsBuilder()
    builder.stream("in", STRINGS.with_timestamp_extractor(FromValue())).to(
        "out", Produced.with_(Serdes.string(), Serdes.string())
    )
    assert values(Bench(builder).feed("in", ("k", "v,7", 1))) == ["v,7"]


def copying(serde: Serde[Any], handler: Any) -> Bench:
    """Returns a program in which nothing looks at keys or values: they pass as bytes."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(serde, serde))
    stream.to("out", Produced.with_(serde, serde))
    stream.group_by_key().count(Materialized.as_("counts"))
    return Bench(builder, {"deserialization.exception.handler": handler})


BROKEN = [b"\xff", b"\xc3", b"a\xc3\x28", b"\xed\xa0\x80"]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("part", ["key", "value"])
def test_text_that_nobody_looks_at_is_checked_when_it_enters_and_dropped_as_if_it_were_decoded(
    part: str, broken: bytes
) -> None:
    handler = Resume()
    bench = copying(Serdes.string(), handler)
    bad = (broken, "v", 2) if part == "key" else ("k", broken, 2)
    sent = bench.feed("in", ("ä", "v", 1), bad, (None, "w", 3), ("c", None, 4), offset=7)
    assert [each.value for each in sent if each.topic == "out"] == [b"v", b"w", None]
    ((context, record, error),) = handler.caught
    assert isinstance(error, UnicodeDecodeError)
    assert (context.topic, context.offset, context.timestamp) == ("in", 8, 2)
    assert record is not None
    assert (record.key, record.value) == (context.source_raw_key, context.source_raw_value)
    assert broken in (record.key, record.value)
    assert bench.dropped == 3, "it, and what a count drops: the null key and the null value"
    assert [key for key, _ in bench.buffer("counts").scan(None, None)] == ["ä".encode()]


@pytest.mark.parametrize("part", ["key", "value"])
def test_text_that_nobody_looks_at_ends_the_task_by_default(part: str) -> None:
    bench = copying(Serdes.string(), LogAndFail())
    bench.add("in", ("k", "v", 1), (b"\xff", "v", 2) if part == "key" else ("k", b"\xff", 2), ("k", "w", 3))
    with pytest.raises(DeserializationError, match=f"the {part} cannot be decoded.*offset 1"):
        bench.run()
    assert [each.value for each in bench.collector.take() if each.topic == "out"] == [b"v"]


def test_halves_of_a_character_in_two_keys_do_not_make_one() -> None:
    handler = Resume()
    copying(Serdes.string(), handler).feed("in", (b"\xc3", "v", 1), (b"\xa4", "v", 2))
    assert [caught.context.offset for caught in handler.caught] == [0, 1]


def test_bytes_need_not_be_text() -> None:
    sent = copying(Serdes.bytes(), LogAndFail()).feed("in", (b"\xff", b"\xfe", 1))
    assert (b"\xff", b"\xfe") in [(each.key, each.value) for each in sent]


def test_a_merge_of_one_that_is_looked_at_and_one_that_is_not_decodes_both() -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()
    looked_at, other = builder.stream("in", STRINGS), builder.stream("other", STRINGS)
    looked_at.peek(lambda k, v: seen.append((k, v)))
    looked_at.merge(other).to("out", Produced.with_(Serdes.string(), Serdes.string()))
    bench = Bench(builder)
    assert values(bench.feed("in", ("k", "v", 1)) + bench.feed("other", ("k2", "w", 2))) == ["v", "w"]
    assert seen == [("k", "v")]


def test_counts_merged_with_values_that_nobody_looks_at_are_written_in_one_form() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", STRINGS).group_by_key().count(Materialized.as_("counts").with_caching_disabled())
    counted = Serde("long", Serdes.long().serialize, Serdes.long().deserialize, lossless=True)
    others = builder.stream("other", Consumed.with_(Serdes.string(), counted))
    counts.to_stream().merge(others).to("out", Produced.with_(Serdes.string(), counted))
    bench = Bench(builder)
    sent = bench.feed("in", ("k", "v", 1)) + bench.feed("other", ("k", 7, 2))
    assert [number(each.value) for each in sent if each.topic == "out"] == [1, 7]


def test_a_merge_of_topics_with_different_serdes_decodes_and_writes_one_form() -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.long()))
    texts = builder.stream("other", Consumed.with_(Serdes.string(), Serdes.bytes()))
    numbers.map_values(lambda n: str(n).encode()).merge(texts).to(
        "out", Produced.with_(Serdes.string(), Serdes.bytes())
    )
    bench = Bench(builder)
    assert values(bench.feed("in", ("k", 7, 1)) + bench.feed("other", ("k", "w", 2))) == ["7", "w"]


@pytest.mark.parametrize("joiner", [lambda left, right: f"{left}{right}", lambda key, left, right: f"{left}{right}"])
def test_a_join_finds_its_table_whether_or_not_keys_are_decoded(joiner: Any) -> None:
    builder = StreamsBuilder()
    table = builder.table("table", STRINGS)
    out: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
    builder.stream("in", STRINGS).join(table, joiner, Joined.with_()).to("out", out)
    bench = Bench(builder)
    bench.feed("table", ("k", "right", 1))
    assert values(bench.feed("in", ("k", "left", 2), ("none", "left", 2))) == ["leftright"]


def test_a_join_with_a_table_under_another_key_serde_compares_bytes_of_that_serde() -> None:
    builder = StreamsBuilder()
    table = builder.table("table", Consumed.with_(Serdes.json(), Serdes.string()))
    stream = builder.stream("in", STRINGS)
    out: Produced[Any, Any] = Produced.with_(Serdes.string(), Serdes.string())
    stream.join(table, lambda left, right: left + right, Joined.with_()).to("out", out)
    bench = Bench(builder)
    bench.feed("table", ('"k"', "right", 1))
    assert values(bench.feed("in", ("k", "left", 2))) == ["leftright"]


def test_cached_updates_reach_children_with_the_key_as_they_expect_it() -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()
    counts = builder.stream("in", STRINGS).group_by_key().count()
    counts.to_stream().peek(lambda k, v: seen.append((k, v))).to("out", Produced.with_(Serdes.string(), Serdes.long()))
    bench = Bench(builder)
    bench.feed("in", ("é", "v", 1))
    sent = [each for each in bench.commit() if each.topic == "out"]
    assert seen == [("é", 1)]
    assert [(each.key, number(each.value)) for each in sent] == [("é".encode(), 1)]
