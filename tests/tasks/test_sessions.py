"""Aggregates of sessions, beyond the parity cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from tests.tasks.closing import closing_all

STRINGS, LONGS = ps.Serdes.string(), ps.Serdes.long()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
CLOSE = ps.EmitStrategy.on_window_close()
AT_ONCE: ps.Materialized[Any, Any] = ps.Materialized.as_("s").with_caching_disabled()

Shown = tuple[str, Any, int]
"""Windowed key as text, value, timestamp."""
Aggregated = Callable[[ps.SessionWindowedKStream[str, str]], ps.KTable[Any, Any]]


def texts(how: ps.Materialized[Any, Any] | None = None) -> Aggregated:
    """Concatenates the values of a session; a bar separates those of sessions that were merged."""
    kept: ps.Materialized[Any, Any] = (how or ps.Materialized.as_("s")).with_value_serde(STRINGS)
    return lambda windowed: windowed.aggregate(
        str,
        lambda key, value, aggregate: None if value == "delete" else f"{aggregate}{value}",
        lambda key, aggregate, other: f"{aggregate}|{other}" if aggregate else other,
        kept,
    )


class Played:
    """Sessions with a gap of 10 ms; records go in, results come out."""

    def __init__(
        self, aggregated: Aggregated, *, grace: int = 100, on_close: bool = False, value_serde: Any = STRINGS
    ) -> None:
        builder = ps.StreamsBuilder()
        windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, grace)
        windowed = builder.stream("in", IN).group_by_key().windowed_by(windows)
        table = aggregated(windowed.emit_strategy(CLOSE) if on_close else windowed)
        table.to_stream(lambda key, value: str(key)).to("out", ps.Produced.with_(STRINGS, value_serde))
        self.driver = ps.TopologyTestDriver(builder.build())
        self._input = self.driver.create_input_topic("in", STRINGS, STRINGS)
        self._output = self.driver.create_output_topic("out", STRINGS, value_serde)

    def put(self, *records: tuple[str | None, str | None, int]) -> list[Shown]:
        """Puts the records and returns the results."""
        for key, value, timestamp in records:
            self._input.pipe_input(key, value, timestamp)
        return [(str(each.key), each.value, each.timestamp) for each in self._output.read_records_to_list()]

    @property
    def dropped(self) -> int:
        return self.driver.metrics().dropped_records_total


Make = Callable[..., Played]


@pytest.fixture
def played() -> Iterator[Make]:
    yield from closing_all(Played)


# ---- which session ----


@pytest.mark.parametrize("how", [ps.Materialized.as_("s"), AT_ONCE], ids=["cached", "at once"])
def test_a_session_grows_to_both_sides_and_each_form_of_it_is_deleted(how: Any, played: Make) -> None:
    play = played(texts(how))
    assert play.put(("k", "a", 20)) == [("[k@20/20]", "a", 20)]
    assert play.put(("k", "b", 30)) == [("[k@20/20]", None, 20), ("[k@20/30]", "ab", 30)]
    assert play.put(("k", "c", 10)) == [("[k@20/30]", None, 30), ("[k@10/30]", "abc", 30)]
    assert play.put(("j", "other", 12)) == [("[j@12/12]", "other", 12)]
    assert play.put(("k", "d", 41)) == [("[k@41/41]", "d", 41)]


def test_a_record_between_sessions_makes_one_of_them_the_earliest_first(played: Make) -> None:
    play = played(texts(AT_ONCE))
    play.put(("k", "c", 40), ("k", "a", 10), ("k", "b", 25))
    assert play.put(("k", "x", 32)) == [
        ("[k@25/25]", None, 25),
        ("[k@40/40]", None, 40),
        ("[k@25/40]", "b|cx", 40),
    ]
    assert play.put(("k", "y", 18)) == [
        ("[k@10/10]", None, 10),
        ("[k@25/40]", None, 40),
        ("[k@10/40]", "a|b|cxy", 40),
    ]


def test_with_a_cache_a_session_whose_bounds_stay_is_updated_instead_of_replaced(played: Make) -> None:
    records = (("k", "a", 10), ("k", "b", 20), ("k", "c", 15))
    assert played(texts()).put(*records)[-1:] == [("[k@10/20]", "abc", 20)]
    # Without a cache the session is deleted and made again, as in Kafka Streams.
    assert played(texts(AT_ONCE)).put(*records)[-2:] == [("[k@10/20]", None, 20), ("[k@10/20]", "abc", 20)]


def test_a_second_record_at_the_same_time_deletes_nothing(played: Make) -> None:
    assert played(texts(AT_ONCE)).put(("k", "a", 10), ("k", "b", 10)) == [
        ("[k@10/10]", "a", 10), ("[k@10/10]", "ab", 10),
    ]  # fmt: skip


def test_keys_that_begin_alike_have_sessions_of_their_own(played: Make) -> None:
    play = played(texts())
    assert play.put(("k", "a", 10), ("kk", "b", 11), ("", "c", 12), ("k", "d", 13))[-1] == ("[k@10/13]", "ad", 13)


# ---- nulls ----


def test_a_null_key_is_dropped_and_a_null_value_counts(played: Make) -> None:
    play = played(lambda windowed: windowed.count(), value_serde=LONGS)
    assert play.put((None, "a", 1), ("k", None, 2), ("k", None, 3))[-1] == ("[k@2/3]", 2, 3)
    assert play.dropped == 1


def test_reducers_are_given_null_values_and_begin_with_the_first(played: Make) -> None:
    play = played(lambda windowed: windowed.reduce(lambda aggregate, value: f"{aggregate}{value}", AT_ONCE))
    assert play.put(("k", "a", 1), ("k", None, 2)) == [
        ("[k@1/1]", "a", 1), ("[k@1/1]", None, 1), ("[k@1/2]", "aNone", 2),
    ]  # fmt: skip


def test_a_null_aggregate_deletes_the_session(played: Make) -> None:
    play = played(texts(AT_ONCE))
    assert play.put(("k", "a", 1), ("k", "delete", 2))[-2:] == [("[k@1/1]", None, 1), ("[k@1/2]", None, 2)]
    assert play.put(("k", "b", 3)) == [("[k@3/3]", "b", 3)]
    assert list(play.driver.get_state_store("s").fetch("k")) == [(ps.Windowed("k", ps.Window(3, 3)), "b")]


# ---- late records ----


def test_a_session_takes_records_for_gap_and_grace_after_its_end(played: Make) -> None:
    play = played(texts(AT_ONCE), grace=5)
    play.put(("k", "a", 100), ("other", "b", 114))
    assert play.put(("k", "c", 99))[-1] == ("[k@99/100]", "ac", 100)
    play.put(("other", "d", 116))
    assert play.put(("k", "e", 98)) == []
    assert play.dropped == 1


def test_a_late_record_is_taken_by_a_session_that_still_takes_records(played: Make) -> None:
    play = played(texts(AT_ONCE), grace=0)
    play.put(("k", "a", 100), ("k", "b", 110))
    assert play.put(("k", "late", 95))[-1] == ("[k@95/110]", "ablate", 110)
    assert play.put(("j", "late", 95)) == []
    assert play.dropped == 1


# ---- on close ----


def test_each_session_is_emitted_once_when_it_closes_by_its_end(played: Make) -> None:
    play = played(texts(), grace=0, on_close=True)
    assert play.put(("k", "a", 0), ("j", "b", 3), ("k", "c", 5), ("k", "d", 15)) == [("[j@3/3]", "b", 3)]
    assert play.put(("x", "e", 25)) == []
    assert play.put(("x", "f", 26)) == [("[k@0/15]", "acd", 15)]
    assert play.put(("x", "g", 60)) == [("[x@25/26]", "ef", 26)]


def test_sessions_emitted_on_close_are_not_cached() -> None:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_with_no_grace(10)
    windowed = builder.stream("in", IN).group_by_key().windowed_by(windows)
    windowed.emit_strategy(CLOSE).count(ps.Materialized.as_("closed"))
    windowed.count(ps.Materialized.as_("updated"))
    stores = builder.build().store_builders
    assert (stores["closed"].caching, stores["updated"].caching) == (False, True)


# ---- how it is written ----


def grouped() -> Any:
    return ps.StreamsBuilder().stream("in", IN).group_by_key()


def windowed() -> Any:
    return grouped().windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(10, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.SessionWindows.of_inactivity_gap_with_no_grace(0), "gap must be at least 1 ms, not 0 ms"),
        (
            lambda: ps.SessionWindows(1.5, 0),  # type: ignore[arg-type]  # on purpose
            "the inactivity gap must be whole milliseconds, not 1.5",
        ),
        (lambda: ps.SessionWindows(1, -1), "the grace period may not be negative: -1 ms"),
        (lambda: windowed().emit_strategy("close"), "emit_strategy needs an EmitStrategy, such as .* not 'close'"),
        (lambda: windowed().count("s"), "count needs a Materialized, not 's'"),
        (lambda: windowed().reduce(lambda value: value), "reduce takes f.aggregate, value. as its reducer"),
        (
            lambda: windowed().aggregate(str, lambda key, value, aggregate: aggregate, AT_ONCE),
            "aggregate: merger must be callable, not Materialized",
        ),
        (
            lambda: windowed().aggregate(str, lambda key, value, aggregate: "", lambda one, other: one),
            r"aggregate takes f\(key, aggregate, other\) as its merger",
        ),
        (
            lambda: windowed().count(ps.Materialized.as_("s").with_retention(14)),
            "store s: a retention of 14 ms is too short: these sessions need 15 ms",
        ),
        (
            lambda: windowed().count(ps.Materialized.as_(ps.Stores.persistent_window_store("w", 10, 10))),
            r"a table of sessions needs a session store, not a window store \('w'\)",
        ),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_at_the_call(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        make()


def test_names_are_those_of_kafka_streams() -> None:
    builder = ps.StreamsBuilder()
    stream, windows = builder.stream("in", IN), ps.SessionWindows.of_inactivity_gap_with_no_grace(10)
    stream.group_by_key().windowed_by(windows).count(named="by-name").to_stream(named="out")
    stream.group_by_key().windowed_by(windows).count(ps.Materialized.with_(STRINGS, LONGS))  # uses up a number
    stream.group_by(lambda value: value).windowed_by(windows).reduce(lambda aggregate, value: value)
    described = builder.build().describe()
    for line in (
        "Processor: by-name (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000001])",
        "Processor: KSTREAM-AGGREGATE-0000000006 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000005])",
        "Processor: KSTREAM-REDUCE-0000000009 (stores: [KSTREAM-REDUCE-STATE-STORE-0000000008])",
        "(topic: KSTREAM-REDUCE-STATE-STORE-0000000008-repartition)",
    ):
        assert line in described, described


@pytest.mark.parametrize(
    ("how", "retention_ms", "persistent"),
    [
        (ps.Materialized.as_("s"), 15, True),
        (ps.Materialized.as_("s").with_retention(timedelta(milliseconds=20)), 20, True),
        (ps.Materialized.as_(ps.Stores.in_memory_session_store("s", 60)), 60, False),
        (ps.Materialized.as_(ps.Stores.persistent_session_store("s", 5)), 5, True),
    ],
)
def test_sessions_are_kept_as_long_as_they_are_needed_or_as_configured(
    how: ps.Materialized[Any, Any], retention_ms: int, persistent: bool
) -> None:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, 5)
    builder.stream("in", IN).group_by_key().windowed_by(windows).count(how)
    store: Any = builder.build().store_builders["s"]
    assert (store.retention_ms, store.persistent) == (retention_ms, persistent)
    config = store.changelog_config(86_400_000)
    assert config == {"cleanup.policy": "compact,delete", "retention.ms": str(86_400_000 + retention_ms)}


# ---- what is done with the table ----


def test_a_table_of_sessions_can_be_looked_up_in_by_its_windowed_key() -> None:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_with_no_grace(10)
    counts = builder.stream("in", IN).group_by_key().windowed_by(windows).count()
    present = counts.to_stream().filter(lambda key, count: count is not None)
    present.join(counts, lambda one, other: f"{one} {other}").to("out", ps.Produced.with_(None, STRINGS))
    serde = ps.WindowedSerdes.session_windowed_serde_from(STRINGS)
    with ps.TopologyTestDriver(builder.build(), {"default.key.serde": serde}) as driver:
        records = driver.create_input_topic("in", STRINGS, STRINGS)
        records.pipe_input("k", "v", 1)
        records.pipe_input("k", "v", 3)
        found = driver.create_output_topic("out", serde, STRINGS).read_key_values_to_list()
    assert found == [(ps.Windowed("k", ps.Window(1, 1)), "1 1"), (ps.Windowed("k", ps.Window(1, 3)), "2 2")]


def test_a_processor_that_writes_the_store_is_seen_by_the_aggregate() -> None:
    class Forget(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.store: ps.SessionStore[str, int] = context.get_state_store("s")

        def process(self, record: ps.Record[str, str]) -> None:
            for session, _ in list(self.store.fetch(record.key)):
                self.store.remove(session)
            self.store.put(ps.Windowed(record.key, ps.Window(5, 6)), 40)

    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, 100)
    kept: ps.Materialized[str, int] = ps.Materialized.as_("s")
    builder.stream("in", IN).group_by_key().windowed_by(windows).count(kept).to_stream().to("out")
    builder.stream("forget", IN).process(Forget, "s")
    with ps.TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRINGS, STRINGS)
        records.pipe_input("k", "v", 1)
        records.pipe_input("k", "v", 2)
        driver.create_input_topic("forget", STRINGS, STRINGS).pipe_input("k", "", 3)
        records.pipe_input("k", "v", 4)
        assert list(driver.get_state_store("s").fetch("k")) == [(ps.Windowed("k", ps.Window(4, 6)), 41)]


def test_a_processor_behind_the_aggregate_may_write_the_store_in_the_middle_of_an_update() -> None:
    class AddAnother(ps.Processor[ps.Windowed[str], int, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.store: ps.SessionStore[str, int] = context.get_state_store("s")

        def process(self, record: ps.Record[ps.Windowed[str], int]) -> None:
            if record.value is None:  # a session has become part of another one, which is not sent yet
                self.store.put(ps.Windowed(record.key.key, ps.Window(20, 25)), 40)

    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, 100)
    counted = builder.stream("in", IN).group_by_key().windowed_by(windows).count(AT_ONCE)
    counted.to_stream().process(AddAnother, "s")
    with ps.TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRINGS, STRINGS)
        for timestamp in (1, 2, 3):
            records.pipe_input("k", "v", timestamp)
        assert list(driver.get_state_store("s").fetch("k")) == [
            (ps.Windowed("k", ps.Window(1, 3)), 3),
            (ps.Windowed("k", ps.Window(20, 25)), 40),
        ]


def test_a_function_that_raises_drops_the_record_and_leaves_the_session_as_it_was(played: Make) -> None:
    builder = ps.StreamsBuilder()
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, 100)
    summed: ps.Materialized[str, int] = ps.Materialized.as_("s").with_value_serde(LONGS)
    builder.stream("in", IN).group_by_key().windowed_by(windows).aggregate(
        int, lambda key, value, sum: sum + int(value), lambda key, one, other: one + other, summed
    )
    config = {"processing.exception.handler": ps.LogAndContinue()}
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        records = driver.create_input_topic("in", STRINGS, STRINGS)
        for value, timestamp in (("1", 1), ("none", 2), ("2", 3)):
            records.pipe_input("k", value, timestamp)
        assert list(driver.get_state_store("s").fetch("k")) == [(ps.Windowed("k", ps.Window(1, 3)), 3)]
        assert driver.metrics().dropped_records_total == 1
