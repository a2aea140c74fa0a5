"""Aggregates in windows of time, beyond the parity cases."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.common.murmur2 import partition_for
from penstock.common.windowed_serdes import WindowedSerde
from tests.tasks.bench import Bench
from tests.tasks.closing import closing_all

STRINGS = ps.Serdes.string()
LONGS = ps.Serdes.long()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
CLOSE = ps.EmitStrategy.on_window_close()
CACHED: ps.Materialized[Any, int] = ps.Materialized.as_("c").with_value_serde(LONGS)

Windows = ps.TimeWindows | ps.SlidingWindows | ps.UnlimitedWindows
Shown = tuple[str, Any, int]
"""Windowed key as text, value, timestamp."""


class Played:
    """A count, or the table that ``aggregate`` makes, per window; records go in, results come out."""

    def __init__(
        self,
        windows: Windows,
        aggregate: Callable[[Any], Any] | None = None,
        *,
        on_close: bool = False,
        value_serde: ps.Serde[Any] = LONGS,
    ) -> None:
        builder = ps.StreamsBuilder()
        windowed = builder.stream("in", IN).group_by_key().windowed_by(windows)
        windowed = windowed.emit_strategy(CLOSE) if on_close else windowed
        table = windowed.count() if aggregate is None else aggregate(windowed)
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


@pytest.fixture
def played() -> Iterator[Callable[..., Played]]:
    yield from closing_all(Played)


# ---- which windows ----


@pytest.mark.parametrize(
    ("windows", "timestamp", "starts"),
    [
        (ps.TimeWindows.of_size_with_no_grace(10), 0, [0]),
        (ps.TimeWindows.of_size_with_no_grace(10), 9, [0]),
        (ps.TimeWindows.of_size_with_no_grace(10), 10, [10]),
        (ps.TimeWindows.of_size_with_no_grace(10).advance_by(4), 0, [0]),
        (ps.TimeWindows.of_size_with_no_grace(10).advance_by(4), 9, [0, 4, 8]),
        (ps.TimeWindows.of_size_with_no_grace(10).advance_by(4), 12, [4, 8, 12]),
        (ps.TimeWindows.of_size_with_no_grace(10).advance_by(3), 11, [3, 6, 9]),
        (ps.UnlimitedWindows.of(), 0, [0]),
        (ps.UnlimitedWindows.of().start_on(5), 4, []),
        (ps.UnlimitedWindows.of().start_on(5), 5, [5]),
    ],
)
def test_a_record_belongs_to_these_windows(
    windows: ps.Windows, timestamp: int, starts: list[int], played: Callable[..., Played]
) -> None:
    assert list(windows.windows_for(timestamp)) == starts
    bench = played(windows)
    ends = [min(start + windows.size_ms, (1 << 63) - 1) for start in starts]
    assert bench.put(("k", "v", timestamp)) == [
        (f"[k@{start}/{end}]", 1, timestamp) for start, end in zip(starts, ends, strict=True)
    ]
    assert bench.dropped == 0


# ---- nulls ----


def test_time_windows_drop_a_null_key_and_take_a_null_value(played: Callable[..., Played]) -> None:
    bench = played(ps.TimeWindows.of_size_with_no_grace(10))
    assert bench.put((None, "v", 1), ("k", None, 2)) == [("[k@0/10]", 1, 2)]
    assert bench.dropped == 1


def test_reducers_and_aggregators_of_time_windows_are_given_null(played: Callable[..., Played]) -> None:
    given: list[Any] = []

    def remember(key: str, value: str | None, aggregate: str) -> str:
        given.append(value)
        return aggregate + str(value)

    bench = played(
        ps.TimeWindows.of_size_with_no_grace(10),
        lambda windowed: windowed.aggregate(str, remember, ps.Materialized.with_(STRINGS, STRINGS)),
        value_serde=STRINGS,
    )
    assert bench.put(("k", None, 1)) == [("[k@0/10]", "None", 1)]
    assert given == [None]
    first = played(
        ps.TimeWindows.of_size_with_no_grace(10),
        lambda windowed: windowed.reduce(lambda aggregate, value: aggregate + str(value)),
        value_serde=STRINGS,
    )
    # A null first value is no aggregate; the next value begins again.
    assert first.put(("k", None, 1)) == []
    assert first.put(("k", "a", 2), ("k", None, 3)) == [("[k@0/10]", "a", 2), ("[k@0/10]", "aNone", 3)]


def test_sliding_windows_drop_null_keys_and_null_values(played: Callable[..., Played]) -> None:
    bench = played(ps.SlidingWindows.of_time_difference_with_no_grace(10))
    assert bench.put((None, "v", 1), ("k", None, 2)) == []
    assert bench.dropped == 2


def test_a_null_aggregate_deletes_the_window(played: Callable[..., Played]) -> None:
    bench = played(
        ps.TimeWindows.of_size_with_no_grace(10),
        lambda windowed: windowed.reduce(lambda aggregate, value: None if value == "x" else aggregate + value),
        value_serde=STRINGS,
    )
    assert bench.put(("k", "a", 1), ("k", "x", 2), ("k", "b", 1)) == [
        ("[k@0/10]", "a", 1), ("[k@0/10]", None, 2), ("[k@0/10]", "b", 1),
    ]  # fmt: skip


# ---- late records ----


def test_a_window_takes_records_until_stream_time_passes_its_end_by_the_grace_period(
    played: Callable[..., Played],
) -> None:
    bench = played(ps.TimeWindows.of_size_and_grace(10, 5))
    assert bench.put(("k", "v", 0), ("other", "v", 14), ("k", "v", 1))[-1] == ("[k@0/10]", 2, 1)
    assert bench.put(("other", "v", 15))
    assert bench.put(("k", "v", 2)) == []
    assert bench.dropped == 1


def test_a_late_record_is_dropped_once_for_each_window_that_has_closed(played: Callable[..., Played]) -> None:
    bench = played(ps.TimeWindows.of_size_with_no_grace(10).advance_by(5))
    bench.put(("k", "v", 17))
    assert bench.put(("k", "v", 12)) == [("[k@10/20]", 2, 17)]  # the largest timestamp
    assert bench.dropped == 1  # of [5, 15)


# ---- on close ----


def test_each_window_is_emitted_once_when_it_closes_by_time_then_by_key(played: Callable[..., Played]) -> None:
    bench = played(ps.TimeWindows.of_size_and_grace(10, 2), on_close=True)
    assert bench.put(("b", "v", 1), ("a", "v", 3), ("a", "v", 12), ("b", "v", 5)) == [
        ("[a@0/10]", 1, 3),
        ("[b@0/10]", 1, 1),
    ]  # fmt: skip
    assert bench.dropped == 1
    assert bench.put(("c", "v", 50)) == [("[a@10/20]", 1, 12)]
    assert bench.put(("c", "v", 51), ("c", "v", 55)) == []


def test_a_result_emitted_on_close_has_the_headers_of_the_record_that_closed_the_window() -> None:
    builder = ps.StreamsBuilder()
    windowed = builder.stream("in", IN).group_by_key().windowed_by(ps.TimeWindows.of_size_with_no_grace(10))
    windowed.emit_strategy(CLOSE).count().to_stream().to("out")
    with ps.TopologyTestDriver(builder.build()) as driver:
        records = driver.create_input_topic("in", STRINGS, STRINGS)
        records.pipe_input("k", "v", 1, headers=[("h", b"first")])
        records.pipe_input("k", "v", 10, headers=[("h", b"second")])
        serde = ps.WindowedSerdes.time_windowed_serde_from(STRINGS, 10)
        (result,) = driver.create_output_topic("out", serde, LONGS).read_records_to_list()
    assert (result.key, result.value, result.timestamp) == (ps.Windowed("k", ps.Window(0, 10)), 1, 1)
    assert result.headers == [("h", b"second")]


def test_a_deleted_window_is_not_emitted(played: Callable[..., Played]) -> None:
    bench = played(
        ps.TimeWindows.of_size_with_no_grace(10),
        lambda windowed: windowed.reduce(lambda aggregate, value: None),
        on_close=True,
        value_serde=STRINGS,
    )
    assert bench.put(("k", "a", 1), ("k", "b", 2), ("o", "o", 3), ("k", "c", 10)) == [("[o@0/10]", "o", 3)]


# ---- how it is written ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.TimeWindows.of_size_with_no_grace(0), "the size must be larger than 0"),
        (lambda: ps.TimeWindows.of_size_with_no_grace(5).advance_by(6), "advance by 1 to 5 ms, not by 6 ms"),
        (lambda: ps.TimeWindows.of_size_with_no_grace(5).advance_by(0), "advance by 1 to 5 ms, not by 0 ms"),
        (lambda: ps.UnlimitedWindows.of().start_on(-1), "start must be whole ms since 1970, from 0 on, not -1"),
        (lambda: grouped().windowed_by(60_000), "windowed_by needs windows, such as .* not 60000"),
        (lambda: windowed().emit_strategy("close"), "emit_strategy needs an EmitStrategy, such as .* not 'close'"),
        (
            lambda: grouped().windowed_by(ps.UnlimitedWindows.of()).emit_strategy(CLOSE),
            "UnlimitedWindows never close",
        ),
        (
            lambda: windowed().count(ps.Materialized.as_("c").with_retention(14)),
            "store c: a retention of 14 ms is too short: these windows need 15 ms, their size and their grace",
        ),
        (
            lambda: sliding().count(ps.Materialized.as_("c").with_retention(24)),
            "a retention of 24 ms is too short: these windows need 25 ms, twice their time difference and",
        ),
        (
            lambda: windowed().count(ps.Materialized.as_(ps.Stores.in_memory_session_store("s", 10))),
            r"a table of windows needs a window store, not a session store \('s'\)",
        ),
        (lambda: windowed().count(ps.Serdes.long()), "count needs a Materialized"),
        (lambda: windowed().reduce(lambda value: value), "reduce takes f"),
        (lambda: windowed().aggregate(0, lambda key, value, aggregate: 0), "aggregate: initializer must be callable"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_at_the_call(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ps.TimeWindows.of_size_and_grace(timedelta(seconds=1), -1),
        lambda: ps.SlidingWindows.of_time_difference_with_no_grace(-1),
        lambda: ps.Materialized.as_("c").with_retention(-1),
    ],
)
def test_a_negative_duration_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="may not be negative"):
        make()


def grouped() -> Any:
    return ps.StreamsBuilder().stream("in", IN).group_by_key()


def windowed() -> Any:
    return grouped().windowed_by(ps.TimeWindows.of_size_and_grace(10, 5))


def sliding() -> Any:
    return grouped().windowed_by(ps.SlidingWindows.of_time_difference_and_grace(10, 5))


def test_names_are_those_of_kafka_streams() -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", IN)
    times = ps.TimeWindows.of_size_with_no_grace(10)
    differences = ps.SlidingWindows.of_time_difference_with_no_grace(10)
    stream.group_by_key().windowed_by(times).count(named="by-name").to_stream(named="out")
    stream.group_by_key().windowed_by(times).count(ps.Materialized.with_(STRINGS, LONGS))  # uses up a number
    stream.group_by_key().windowed_by(differences).count(ps.Materialized.with_(STRINGS, LONGS))  # does not
    stream.group_by(lambda value: value).windowed_by(times).reduce(lambda aggregate, value: value)
    described = builder.build().describe()
    for line in (
        "Processor: by-name (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000001])",
        "Processor: KSTREAM-AGGREGATE-0000000006 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000005])",
        "Processor: KSTREAM-AGGREGATE-0000000008 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000007])",
        "Processor: KSTREAM-REDUCE-0000000011 (stores: [KSTREAM-REDUCE-STATE-STORE-0000000010])",
        "(topic: KSTREAM-REDUCE-STATE-STORE-0000000010-repartition)",
    ):
        assert line in described, described


# ---- where it is kept ----


def store_of(topology: ps.Topology) -> Any:
    ((store,),) = [each.stores for each in topology.subtopologies]
    return store


@pytest.mark.parametrize(
    ("windows", "how", "retention_ms", "config"),
    [
        (ps.TimeWindows.of_size_and_grace(10, 5), ps.Materialized.as_("c"), 15, 86_400_015),
        (ps.SlidingWindows.of_time_difference_and_grace(10, 5), ps.Materialized.as_("c"), 25, 86_400_025),
        (ps.UnlimitedWindows.of(), ps.Materialized.as_("c"), (1 << 63) - 1, (1 << 63) - 1),
        (ps.TimeWindows.of_size_and_grace(10, 5), ps.Materialized.as_("c").with_retention(20), 20, 86_400_020),
        (
            ps.TimeWindows.of_size_and_grace(10, 5),
            ps.Materialized.as_(ps.Stores.persistent_window_store("c", 60, 10)),
            60,
            86_400_060,
        ),
    ],
)
def test_windows_are_kept_as_long_as_they_are_needed_or_as_configured(
    windows: Any, how: ps.Materialized[Any, Any], retention_ms: int, config: int
) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", IN).group_by_key().windowed_by(windows).count(how)
    store = store_of(builder.build())
    assert store.retention_ms == retention_ms
    assert store.changelog_config(86_400_000) == {"cleanup.policy": "compact,delete", "retention.ms": str(config)}


@pytest.mark.parametrize("on_close", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        ps.Materialized.as_("c"),
        ps.Materialized.as_("c").with_caching_disabled(),
        ps.Materialized.as_("c").with_store_type(ps.StoreType.IN_MEMORY),
        ps.Materialized.as_(ps.Stores.in_memory_window_store("c", 100, 10)),
        ps.Materialized.as_(ps.Stores.persistent_window_store("c", 100, 10)),
        ps.Materialized.as_(ps.Stores.persistent_window_store("c", 10, 10)),
    ],
)
def test_results_are_the_same_wherever_windows_are_kept(
    how: ps.Materialized[Any, Any], on_close: bool, played: Callable[..., Played]
) -> None:
    windows = ps.TimeWindows.of_size_and_grace(10, 0)
    bench = played(windows, lambda windowed: windowed.count(how.with_value_serde(LONGS)), on_close=on_close)
    shown = bench.put(("k", "v", 1), ("k", "v", 5), ("k", "v", 11))
    if on_close:
        assert shown == [("[k@0/10]", 2, 5)]
    else:
        assert shown == [("[k@0/10]", 1, 1), ("[k@0/10]", 2, 5), ("[k@10/20]", 1, 11)]
    assert list(bench.driver.get_state_store("c").fetch("k", 0, 100))[-1] == (10, ps.ValueAndTimestamp(1, 11))


def test_a_user_s_store_may_keep_windows_for_less_than_they_take_records(played: Callable[..., Played]) -> None:
    how: ps.Materialized[str, int] = ps.Materialized.as_(ps.Stores.persistent_window_store("c", 10, 10))
    bench = played(ps.TimeWindows.of_size_and_grace(10, 100), lambda windowed: windowed.count(how))
    # A window that it does not show any more is counted again, as in Kafka Streams without a cache.
    assert bench.put(("k", "v", 1), ("k", "v", 25), ("k", "v", 2))[-1] == ("[k@0/10]", 1, 2)


def test_a_windowed_table_can_be_looked_up_in_by_its_windowed_key() -> None:
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", IN).group_by_key().windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).count()
    counts.to_stream().join(counts, lambda one, other: f"{one} {other}").to_table().to_stream().to("out")
    serde = ps.WindowedSerdes.time_windowed_serde_from(STRINGS, 10)
    with ps.TopologyTestDriver(builder.build(), {"default.value.serde": STRINGS}) as driver:
        driver.create_input_topic("in", STRINGS, STRINGS).pipe_input("k", "v", 1)
        assert driver.create_output_topic("out", serde, STRINGS).read_record().value == "1 1"


# ---- serdes and partitions ----


@pytest.mark.parametrize(
    ("serde", "windowed", "data"),
    [
        (
            ps.WindowedSerdes.time_windowed_serde_from(STRINGS, 5),
            ps.Windowed("A", ps.Window(10, 15)),
            "41000000000000000a",
        ),
        (
            ps.WindowedSerdes.session_windowed_serde_from(STRINGS),
            ps.Windowed("A", ps.Window(5, 20)),
            "4100000000000000140000000000000005",
        ),
    ],
)
def test_windowed_keys_are_written_as_kafka_streams_writes_them(serde: Any, windowed: Any, data: str) -> None:
    assert serde.serialize(windowed).hex() == data
    assert serde.deserialize(bytes.fromhex(data)) == windowed
    with pytest.raises(ps.SerializationError, match="a Windowed key expected, not 'A'"):
        serde.serialize("A")
    with pytest.raises(ps.SerializationError, match=r"a key and .* bytes expected, 3 received"):
        serde.deserialize(b"123")


def test_two_serdes_of_the_same_windows_are_equal_and_travel() -> None:
    serde = ps.WindowedSerdes.time_windowed_serde_from(STRINGS, 5)
    assert serde == ps.WindowedSerdes.time_windowed_serde_from(STRINGS, timedelta(milliseconds=5))
    assert serde != ps.WindowedSerdes.time_windowed_serde_from(STRINGS, 6)
    assert pickle.loads(pickle.dumps(serde)) is serde
    assert isinstance(serde, WindowedSerde)
    assert serde.bind("topic", "key") is serde


def test_all_windows_of_a_key_go_to_the_partition_of_the_key() -> None:
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_with_no_grace(10)
    table = builder.stream("in", IN).group_by_key().windowed_by(windows).count(CACHED.with_caching_disabled())
    table.to_stream().to("out")
    table.to_stream().repartition(ps.Repartitioned.as_("again"))
    bench = Bench(builder, partitions=7)
    sent = bench.feed("in", ("k", "v", 1), ("k", "v", 12), ("l", "v", 12))
    assert [each.partition for each in sent if each.topic == "out"] == [
        partition_for(b"k", 7), partition_for(b"k", 7), partition_for(b"l", 7),
    ]  # fmt: skip
    # A repartition topic is partitioned by the whole key, by each of its producers.
    assert [each.partition for each in sent if each.topic.endswith("-repartition")] == [-1] * 3
