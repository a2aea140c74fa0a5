"""``suppress`` beyond the parity cases, and the scenarios of Kafka Streams' own tests as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from penstock.state.buffers.buffered_change import BufferedChangeCodec
from penstock.testing.driver_topics import TestRecord
from penstock.topology.options.session_windows import SessionWindows
from tests.tasks.bench import Bench
from tests.tasks.closing import closing_all

STRINGS = ps.Serdes.string()
LONGS = ps.Serdes.long()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
OUT = ps.Produced.with_(STRINGS, STRINGS)
UNBOUNDED = ps.BufferConfig.unbounded()
LONG_TIME = timedelta(days=10_000)
WRONG: Any = "wrong"
EAGER: Any = ps.BufferConfig.max_records(5)

Input = tuple[str, str | None, int]
Shown = tuple[str, Any, int]


class Played:
    """A program on a test driver: records go into ``in``, results are read from ``out``."""

    def __init__(self, build: Callable[[ps.StreamsBuilder], Any], value_serde: ps.Serde[Any] = STRINGS) -> None:
        builder = ps.StreamsBuilder()
        build(builder).to("out", ps.Produced.with_(STRINGS, value_serde))
        self.topology = builder.build()
        self.driver = ps.TopologyTestDriver(self.topology)
        self._output = self.driver.create_output_topic("out", STRINGS, value_serde)

    def put(self, *records: Input, topic: str = "in") -> list[Shown]:
        """Puts the records and returns the results."""
        for key, value, timestamp in records:
            self.driver.pipe(topic, key.encode(), None if value is None else value.encode(), timestamp)
        return [(each.key or "", each.value, each.timestamp) for each in self.records()]

    def records(self) -> list[TestRecord[str | None, Any]]:
        return self._output.read_records_to_list()


@pytest.fixture
def played() -> Iterator[Callable[..., Played]]:
    yield from closing_all(Played)


def table(how: ps.Suppressed[Any]) -> Callable[[ps.StreamsBuilder], ps.KStream[str, str]]:
    """Returns a program with a table whose updates are held back."""
    return lambda builder: builder.table("in", IN).suppress(how).to_stream()


# ---- the scenarios of SuppressScenarioTest ----


def value_counts(how: ps.Suppressed[Any]) -> Callable[[ps.StreamsBuilder], ps.KStream[str, int]]:
    grouped: ps.Grouped[str, str] = ps.Grouped.with_(STRINGS, STRINGS)
    return lambda builder: (
        builder.table("in", IN)
        .group_by(lambda key, value: (value, key), grouped)
        .count(ps.Materialized.with_(STRINGS, LONGS))
        .suppress(how)
        .to_stream()
    )


FIRST: list[Input] = [("k1", "v1", 0), ("k1", "v2", 1), ("k2", "v1", 2)]


@pytest.mark.parametrize(
    ("how", "steps"),
    [
        (
            ps.Suppressed.until_time_limit(0, UNBOUNDED),
            [
                (FIRST, [("v1", 1, 0), ("v1", 0, 1), ("v2", 1, 1), ("v1", 1, 2)]),
                ([("x", "x", 3)], [("x", 1, 3)]),
                ([("x", "y", 4)], [("x", 0, 4), ("y", 1, 4)]),
            ],
        ),
        (
            ps.Suppressed.until_time_limit(2, UNBOUNDED),
            [
                (FIRST, [("v1", 1, 2)]),
                ([("tick", "tick", 3)], [("v2", 1, 1)]),
                ([("tick", "tock", 4)], []),
            ],
        ),
        (
            ps.Suppressed.until_time_limit(LONG_TIME, ps.BufferConfig.max_records(1).emit_early_when_full()),
            [(FIRST, [("v1", 0, 1), ("v2", 1, 1)]), ([("x", "x", 3)], [("v1", 1, 2)])],
        ),
        (
            ps.Suppressed.until_time_limit(LONG_TIME, ps.BufferConfig.max_bytes(200).emit_early_when_full()),
            [(FIRST, [("v1", 0, 1), ("v2", 1, 1)]), ([("x", "x", 3)], [("v1", 1, 2)])],
        ),
    ],
    ids=["at once", "time limit", "record limit", "byte limit"],
)
def test_intermediate_results_are_held_back(
    played: Callable[..., Played], how: ps.Suppressed[Any], steps: list[tuple[list[Input], list[Shown]]]
) -> None:
    counts = played(value_counts(how), LONGS)
    for records, out in steps:
        assert counts.put(*records) == out


def window_counts(windows: Any) -> Callable[[ps.StreamsBuilder], ps.KStream[str, int]]:
    return lambda builder: (
        builder.stream("in", IN)
        .group_by_key()
        .windowed_by(windows)
        .count(ps.Materialized.as_("counts").with_caching_disabled())
        .suppress(ps.Suppressed.until_window_closes(UNBOUNDED))
        .to_stream(lambda key, value: str(key))
    )


@pytest.mark.parametrize(
    ("windows", "timestamps", "out"),
    [
        (ps.TimeWindows.of_size_and_grace(2, 1), [0, 1, 2, 1, 0, 5, 0], [("[k1@0/2]", 4, 1), ("[k1@2/4]", 1, 2)]),
        (
            ps.TimeWindows.of_size_and_grace(2, 2),
            [0, 1, 2, 0, 3, 0, 4, 0, 30],
            [("[k1@0/2]", 4, 1), ("[k1@2/4]", 2, 3), ("[k1@4/6]", 1, 4)],
        ),
        (
            ps.SlidingWindows.of_time_difference_and_grace(5, 15),
            [10, 11, 10, 13, 10, 24, 5, 7, 90],
            [
                ("[k1@5/10]", 5, 10),
                ("[k1@6/11]", 5, 11),
                ("[k1@8/13]", 5, 13),
                ("[k1@11/16]", 2, 13),
                ("[k1@12/17]", 1, 13),
                ("[k1@19/24]", 1, 24),
            ],
        ),
    ],
    ids=["time windows", "large jump", "sliding windows"],
)
def test_windows_have_one_final_result(
    played: Callable[..., Played], windows: Any, timestamps: list[int], out: list[Shown]
) -> None:
    assert played(window_counts(windows), LONGS).put(*(("k1", "v1", timestamp) for timestamp in timestamps)) == out


def test_sessions_have_one_final_result(played: Callable[..., Played]) -> None:
    sessions = played(window_counts(SessionWindows.of_inactivity_gap_with_no_grace(5)), LONGS)
    late = ("k1", "v1", 5)
    out = sessions.put(("k1", "v1", 0), late, ("k1", "v1", 1), ("k2", "v1", 11), late, ("k1", "v1", 30))
    assert out == [("[k1@0/5]", 3, 5), ("[k2@11/11]", 1, 11)]


def test_a_group_by_continues_from_what_was_forwarded(played: Callable[..., Played]) -> None:
    grouped: ps.Grouped[str, str] = ps.Grouped.with_(STRINGS, STRINGS)
    counts = played(
        lambda builder: (
            builder.table("in", IN)
            .suppress(ps.Suppressed.until_time_limit(10, UNBOUNDED))
            .group_by(lambda key, value: (key, value), grouped)
            .count(ps.Materialized.with_(STRINGS, LONGS))
            .to_stream()
        ),
        LONGS,
    )
    assert counts.put(("A", "a", 0), ("tick", "tick", 10)) == [("A", 1, 0)]


@pytest.mark.parametrize("held_left", [False, True])
def test_a_join_finds_what_was_there_before_an_update_waited(played: Callable[..., Played], held_left: bool) -> None:
    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        held = builder.table("held", IN).suppress(ps.Suppressed.until_time_limit(10, UNBOUNDED))
        other = builder.table("other", IN)
        left, right = (held, other) if held_left else (other, held)
        return left.outer_join(right, lambda one, two: f"{one}-{two}" if held_left else f"{two}-{one}").to_stream()

    joined = played(build)
    assert joined.put(("B", "1", 0), ("A", "1", 0), topic="held") == []
    assert joined.put(("tick", "tick", 10), topic="held") == [("A", "1-None", 0), ("B", "1-None", 0)]
    assert joined.put(("A", "2", 11), topic="held") == []
    assert joined.put(("A", "a", 12), topic="other") == [("A", "1-a", 12)]
    assert joined.put(("B", "b", 12), topic="other") == [("B", "1-b", 12)]
    assert joined.put(("A", "b", 13), topic="other") == [("A", "1-b", 13)]
    assert joined.put(("tick", "tick1", 21), topic="held") == [("tick", "tick1-None", 21), ("A", "2-b", 13)]


# ---- time, order, deletions, headers ----


def test_time_is_the_largest_timestamp_and_a_late_record_may_be_forwarded_at_once(
    played: Callable[..., Played],
) -> None:
    held = played(table(ps.Suppressed.until_time_limit(timedelta(milliseconds=10), UNBOUNDED)))
    assert held.put(("a", "1", 100)) == []
    assert held.put(("b", "1", 90)) == [("b", "1", 90)]
    assert held.put(("b", "2", 91)) == []
    assert held.put(("c", "1", 101)) == [("b", "2", 91)]


def test_the_wall_clock_advances_nothing(played: Callable[..., Played]) -> None:
    held = played(table(ps.Suppressed.until_time_limit(10, UNBOUNDED)))
    held.put(("a", "1", 0))
    held.driver.advance_wall_clock_time(timedelta(days=1))
    assert held.records() == []


def test_a_deletion_is_forwarded_even_if_its_key_is_unknown(played: Callable[..., Played]) -> None:
    held = played(table(ps.Suppressed.until_time_limit(10, UNBOUNDED)))
    assert held.put(("a", "1", 0), ("a", None, 5), ("b", "1", 10)) == [("a", None, 5)]


def test_a_window_that_was_deleted_has_no_final_result(played: Callable[..., Played]) -> None:
    windowed = played(
        lambda builder: (
            builder.stream("in", IN)
            .group_by_key()
            .windowed_by(ps.TimeWindows.of_size_with_no_grace(10))
            .reduce(lambda one, other: "" if other == "delete" else other)
            .filter(lambda value: value != "")
            .suppress(ps.Suppressed.until_window_closes(UNBOUNDED))
            .to_stream(lambda key, value: str(key))
        )
    )
    out = windowed.put(("a", "1", 0), ("a", "delete", 1), ("b", "1", 2), ("c", "1", 20))
    assert out == [("[b@0/10]", "1", 2)]


def test_a_forwarded_record_has_the_headers_of_its_last_update(played: Callable[..., Played]) -> None:
    held = played(table(ps.Suppressed.until_time_limit(10, UNBOUNDED)))
    for number, (key, timestamp) in enumerate([("a", 0), ("a", 1), ("b", 10)], 1):
        held.driver.pipe("in", key.encode(), b"%d" % number, timestamp, [("n", b"%d" % number)])
    (record,) = held.records()
    assert (record.value, list(record.headers)) == ("2", [("n", b"2")])


class Where(ps.Processor[str, str, str, str]):
    """Forwards each record with its topic and offset as the value."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.Record[str, str]) -> None:
        at = self.context.record_metadata()
        self.context.forward(record.with_value(f"{at.topic}/{at.offset}" if at else "nowhere"))


def test_a_forwarded_record_has_the_source_of_its_last_update(played: Callable[..., Played]) -> None:
    held = played(
        lambda builder: (
            builder.table("in", IN).suppress(ps.Suppressed.until_time_limit(10, UNBOUNDED)).to_stream().process(Where)
        )
    )
    assert held.put(("a", "1", 0), ("a", "2", 1), ("b", "1", 10)) == [("a", "in/1", 1)]


# ---- limits ----


def test_a_buffer_that_may_hold_nothing_forwards_everything_at_once(played: Callable[..., Played]) -> None:
    held = played(table(ps.Suppressed.until_time_limit(LONG_TIME, ps.BufferConfig.max_records(0))))
    assert held.put(("a", "1", 5), ("b", "1", 4)) == [("a", "1", 5), ("b", "1", 4)]


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        (ps.BufferConfig.max_records(1), "would hold 2 keys, and may hold 1 keys"),
        (ps.BufferConfig.max_bytes(50), "would hold 2 keys of 64 bytes, and may hold 50 bytes"),
        (ps.BufferConfig.max_bytes(50).with_max_records(9), "and may hold 9 keys, 50 bytes"),
    ],
)
def test_a_strict_buffer_that_is_full_ends_the_task(
    played: Callable[..., Played], config: ps.BufferConfig, reported: str
) -> None:
    held = played(table(ps.Suppressed.until_time_limit(LONG_TIME, config.shut_down_when_full())))
    held.put(("a", "1", 0))
    with pytest.raises(ps.BufferFullError, match=reported) as caught:
        held.put(("b", "1", 1))
    assert "operator KTABLE-SUPPRESS-0000000003; topic in, partition 0, offset 1; key 'b'" in str(caught.value)
    with pytest.raises(ps.StreamsError, match="has ended"):
        held.put(("c", "1", 2))


def test_a_strict_buffer_first_lets_go_what_is_due(played: Callable[..., Played]) -> None:
    held = played(table(ps.Suppressed.until_time_limit(10, ps.BufferConfig.max_records(1).shut_down_when_full())))
    assert held.put(("a", "1", 0), ("b", "1", 10), ("c", "1", 20)) == [("a", "1", 0), ("b", "1", 10)]


def test_no_handler_lets_a_strict_buffer_grow() -> None:
    builder = ps.StreamsBuilder()
    held = ps.BufferConfig.max_records(1).shut_down_when_full()
    table(ps.Suppressed.until_time_limit(LONG_TIME, held))(builder).to("out", OUT)
    config = {"processing.exception.handler": ps.LogAndContinue()}
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        driver.pipe("in", b"a", b"1", 0)
        with pytest.raises(ps.BufferFullError):
            driver.pipe("in", b"b", b"1", 0)


# ---- names, changelog, values ----


def test_a_named_operator_uses_up_no_numbers(played: Callable[..., Played]) -> None:
    def described(how: ps.Suppressed[Any]) -> str:
        return played(table(how)).topology.describe()

    unnamed = described(ps.Suppressed.until_time_limit(10, UNBOUNDED))
    assert "KTABLE-SUPPRESS-0000000003 (stores: [KTABLE-SUPPRESS-STATE-STORE-0000000004])" in unnamed
    assert "KTABLE-TOSTREAM-0000000005" in unnamed
    named = described(ps.Suppressed.until_time_limit(10, UNBOUNDED).with_name("calm"))
    assert "calm (stores: [calm-store])" in named
    assert "KTABLE-TOSTREAM-0000000003" in named


@pytest.mark.parametrize("logging", [True, False])
def test_there_is_a_changelog_unless_it_is_switched_off(played: Callable[..., Played], logging: bool) -> None:
    config = UNBOUNDED if logging else UNBOUNDED.with_logging_disabled()
    held = played(table(ps.Suppressed.until_time_limit(10, config).with_name("calm")))
    held.put(("a", "1", 0), ("b", "1", 10))
    assert ("topology-test-driver-calm-store-changelog" in held.driver.produced_topic_names()) is logging


def test_the_changelog_topic_is_compacted_and_has_the_settings_that_were_given() -> None:
    builder = ps.StreamsBuilder()
    config = UNBOUNDED.with_logging_enabled({"segment.ms": "1000"})
    table(ps.Suppressed.until_time_limit(10, config).with_name("calm"))(builder).to("out", OUT)
    (store,) = [each for sub in builder.build().subtopologies for each in sub.stores if each.name == "calm-store"]
    assert (store.changelog_config(0), store.topic_config) == ({"cleanup.policy": "compact"}, {"segment.ms": "1000"})
    assert not store.persistent


def test_a_value_without_a_fitting_serde_is_named(played: Callable[..., Played]) -> None:
    held = played(
        lambda builder: (
            builder.table("in", IN)
            .map_values(len, ps.Materialized.with_(STRINGS, STRINGS))
            .suppress(ps.Suppressed.until_time_limit(10, UNBOUNDED))
            .to_stream()
        )
    )
    with pytest.raises(ps.SerializationError, match=r"store KTABLE-SUPPRESS-STATE-STORE-0000000006: .* key 'a'"):
        held.put(("a", "text", 0))


@pytest.mark.parametrize("at_once", [1, 2], ids=["each alone", "together"])
def test_updates_of_a_cached_store_keep_their_source_until_the_commit(at_once: int) -> None:
    """Found wrong: a record that was processed alone got the topic and offset of the last one before the flush."""
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", IN).group_by_key().count(ps.Materialized.as_("counts"))
    counts.suppress(ps.Suppressed.until_time_limit(LONG_TIME, UNBOUNDED))
    bench = Bench(builder)
    records = [("a", "", 1), ("b", "", 2)]
    for begin in range(0, 2, at_once):
        bench.feed("in", *records[begin : begin + at_once])
    sent = [each for each in bench.commit() if "SUPPRESS" in each.topic]
    codec = BufferedChangeCodec("buffer", LONGS)
    assert {each.key: codec.decode(each.value or b"")[6:8] for each in sent} == {
        b"a": (TopicPartition("in", 0), 0),
        b"b": (TopicPartition("in", 0), 1),
    }


@pytest.mark.parametrize("upstream", ["cached", "at once"])
@pytest.mark.parametrize("beside_records", [False, True])
def test_emitted_records_are_written_before_their_deletion_from_the_changelog(
    upstream: str, beside_records: bool
) -> None:
    """A crash between the two would lose it: the record that let it through comes again, and finds nothing."""
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_with_no_grace(timedelta(milliseconds=10))
    held: ps.Materialized[str, int] = ps.Materialized.as_("counts")
    counts = builder.stream("in", IN).group_by_key().windowed_by(windows)
    counted = counts.count(held if upstream == "cached" else held.with_caching_disabled())
    final = counted.suppress(ps.Suppressed.until_window_closes(ps.StrictBufferConfig()).with_name("final"))
    final.map_values(str, ps.Materialized.as_("texts").with_value_serde(ps.Serdes.string())).to_stream().to("out")
    bench = Bench(builder)
    bench.feed("in", ("a", "", 1))
    bench.commit()
    bench.feed("in", ("b", "", 100))
    steps = [bench.task.take_snapshot, bench.task.flush_snapshot] if beside_records else [bench.task.prepare_commit]
    for step in steps:
        for _ in step():
            pass
    sent = bench.collector.take()
    topics = [each.topic for each in sent if each.topic in ("out", "app-texts-changelog")]
    assert sorted(topics) == ["app-texts-changelog", "out"]
    [gone] = [at for at, each in enumerate(sent) if "final" in each.topic and each.value is None]
    assert gone > max(at for at, each in enumerate(sent) if each.topic in topics)
