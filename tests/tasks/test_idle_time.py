"""``window.idle.advance.ms``: event time that continues by the wall clock while no records come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from tests.parity.restarts import RestartingDriver
from tests.tasks.bench import STRINGS, Bench, values

TEXT, LONG = ps.Serdes.string(), ps.Serdes.long()
IDLE = {"window.idle.advance.ms": 100}
CLOSE = ps.EmitStrategy.on_window_close()
ROWS: ps.Materialized[Any, Any] = ps.Materialized.as_("filtered")
GRACE = ps.TimeWindows.of_size_and_grace(10, 5)
Build = Callable[[ps.StreamsBuilder], ps.KStream[str, Any]]


def shown(key: ps.Windowed[str], value: Any) -> str:
    return f"{key.key}@{key.window.start}-{key.window.end}={value}"


class Played:
    """Text goes into topics; the values of ``out`` are text."""

    def __init__(self, build: Build, config: Mapping[str, Any] = IDLE, state: Path | None = None) -> None:
        builder = ps.StreamsBuilder()
        build(builder).to("out", ps.Produced.with_(TEXT, TEXT))
        self.driver = RestartingDriver(builder.build(), config, state)
        self._out = self.driver.create_output_topic("out", TEXT, TEXT)

    def put(self, key: str, timestamp: int, value: str = "v", topic: str = "in") -> list[tuple[str, int]]:
        self.driver.pipe(topic, key.encode(), value.encode(), timestamp)
        return self.out()

    def wait(self, ms: int) -> list[tuple[str, int]]:
        self.driver.advance_wall_clock_time(ms)
        return self.out()

    def out(self) -> list[tuple[str, int]]:
        return [(each.value or "", each.timestamp) for each in self._out.read_records_to_list()]

    @property
    def dropped(self) -> int:
        return self.driver.metrics().dropped_records_total


def as_stream(table: ps.KTable[ps.Windowed[str], int]) -> ps.KStream[str, str]:
    stream = table.to_stream()
    return stream.map(lambda key, value: (key.key, shown(key, value)))


def tumbling(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    windowed = builder.stream("in", STRINGS).group_by_key().windowed_by(GRACE)
    return as_stream(windowed.emit_strategy(CLOSE).count())


def sliding(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    windows = ps.SlidingWindows.of_time_difference_and_grace(10, 5)
    return as_stream(builder.stream("in", STRINGS).group_by_key().windowed_by(windows).emit_strategy(CLOSE).count())


def sessions(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    windows = ps.SessionWindows.of_inactivity_gap_and_grace(10, 5)
    return as_stream(builder.stream("in", STRINGS).group_by_key().windowed_by(windows).emit_strategy(CLOSE).count())


def suppressed(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    counts = builder.stream("in", STRINGS).group_by_key().windowed_by(GRACE).count()
    return as_stream(counts.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())))


def held_back(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    limit: ps.Suppressed[Any] = ps.Suppressed.until_time_limit(10, ps.BufferConfig.unbounded())
    return builder.table("in", STRINGS).suppress(limit).to_stream()


def joined(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    left, right = builder.stream("in", STRINGS), builder.stream("right", STRINGS)
    windows = ps.JoinWindows.of_time_difference_and_grace(10, 5)
    how: ps.StreamJoined[str, str, str] = ps.StreamJoined.with_(TEXT, TEXT, TEXT)
    return left.outer_join(right, lambda one, other: f"{one}+{other}", windows, how)


def joined_as_of(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    history = ps.Stores.persistent_versioned_key_value_store("history", 1000)
    table = builder.table("right", STRINGS, ps.Materialized.as_(history))
    how: ps.Joined[str, str, str] = ps.Joined.with_(TEXT, TEXT, TEXT).with_grace_period(10)
    return builder.stream("in", STRINGS).left_join(table, lambda one, other: f"{one}+{other}", how)


def beside_a_table(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
    table = builder.table("right", STRINGS)
    how: ps.Joined[str, str, str] = ps.Joined.with_(TEXT, TEXT, TEXT)
    stream = builder.stream("in", STRINGS).left_join(table, lambda one, other: one, how)
    windowed = stream.group_by_key(ps.Grouped.with_(TEXT, TEXT)).windowed_by(GRACE)
    return as_stream(windowed.emit_strategy(CLOSE).count())


@pytest.mark.parametrize(
    ("build", "closes_at", "result"),
    [
        (tumbling, 115, ("k@100-110=1", 104)),
        (sliding, 110, ("k@94-104=1", 104)),
        (sessions, 120, ("k@104-104=1", 104)),
        (suppressed, 115, ("k@100-110=1", 104)),
        (held_back, 114, ("v", 104)),
        (joined, 120, ("v+None", 104)),
        (joined_as_of, 115, ("v+None", 104)),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_results_that_wait_for_time_are_sent_when_the_idle_clock_has_advanced_as_far(
    build: Build, closes_at: int, result: tuple[str, int]
) -> None:
    played = Played(build, {**IDLE, "window.idle.advance.ms": closes_at - 104})
    assert played.put("k", 104) == []
    assert played.wait(closes_at - 105) == []
    assert played.wait(1) == [result]
    assert played.wait(1000) == []


@pytest.mark.parametrize(
    "build", [tumbling, sliding, sessions, suppressed, held_back, joined], ids=lambda each: each.__name__
)
def test_without_the_setting_the_clock_closes_nothing(build: Build) -> None:
    played = Played(build, {})
    assert played.put("k", 104) == []
    assert played.wait(10**9) == []


def test_time_waits_for_the_configured_interval_and_then_advances_from_the_last_record() -> None:
    played = Played(tumbling)
    played.put("k", 104)
    assert played.wait(99) == []
    assert played.wait(1) == [("k@100-110=1", 104)]  # 204, at once
    played.put("k", 250)
    assert played.wait(100) == [("k@250-260=1", 250)]


def test_small_steps_and_a_large_one_come_to_the_same() -> None:
    steps, jump = Played(tumbling), Played(tumbling)
    for played in (steps, jump):
        for key, timestamp in (("a", 0), ("b", 150), ("c", 150), ("a", 199)):
            played.put(key, timestamp)
    assert [result for _ in range(30) for result in steps.wait(10)] == jump.wait(300)


def test_a_record_for_a_window_that_closed_this_way_is_late_and_counted() -> None:
    played = Played(tumbling)
    played.put("k", 104)
    played.wait(100)  # 204
    assert played.put("k", 105) == []
    assert played.dropped == 1
    assert played.put("k", 230) == []
    assert played.wait(100) == [("k@230-240=1", 230)]


def test_time_never_goes_back_and_a_record_of_before_moves_it_no_more() -> None:
    played = Played(tumbling)
    played.put("k", 104)
    played.wait(100)  # 204
    played.put("k", 192)  # the window still takes it: it ends at 200, with a grace of 5 ms
    assert (played.dropped, played.wait(99)) == (0, [])
    assert played.wait(1) == [("k@190-200=1", 192)]  # 304


def test_before_the_first_record_there_is_no_time_to_advance() -> None:
    played = Played(tumbling)
    assert played.wait(10_000) == []
    assert played.put("k", 104) == []
    assert played.dropped == 0


@pytest.mark.parametrize("build", [tumbling, sessions, suppressed, joined, joined_as_of], ids=lambda it: it.__name__)
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "rocksdb"])
def test_a_restart_forgets_no_time_and_counts_none(build: Build, on_disk: bool, tmp_path: Path) -> None:
    whole, cut = Played(build), Played(build, state=tmp_path if on_disk else None)
    for played in (whole, cut):
        played.put("k", 104)
        assert len(played.wait(100)) == 1  # 204
        played.put("k", 300)
    cut.driver.restart()  # from here on it is idle
    results = []
    for played in (whole, cut):
        late = played.put("k", 1, "late")
        results.append((late, played.dropped - (whole.dropped if played is cut else 0), played.wait(100)))
    assert results[0][0] == results[1][0]
    assert results[0][2] == results[1][2]


def test_idle_time_before_a_restart_is_not_counted_after_it() -> None:
    played = Played(tumbling)
    played.put("k", 104)
    played.wait(99)
    played.driver.restart()
    assert played.wait(99) == []
    assert played.wait(1) == [("k@100-110=1", 104)]


def test_a_topic_that_gives_nothing_behind_a_restart_is_idle_from_the_restart_on() -> None:
    played = Played(beside_a_table)
    played.put("k", 104)
    played.put("k", 104, topic="right")
    played.driver.restart()
    assert played.wait(60) == []
    played.put("k", 104, topic="right")
    assert played.wait(40) == [("k@100-110=1", 104)]


def test_the_time_that_has_gone_on_is_committed() -> None:
    played = Played(tumbling)
    played.put("k", 104)
    played.wait(100)
    played.driver.restart()
    played.put("k", 105)
    assert (played.dropped, played.wait(500)) == (1, [])


# ---- several inputs ----


def test_an_input_that_does_not_lead_to_an_operator_does_not_keep_its_time() -> None:
    """The windows of a stream close although the table that it is joined with is updated all the time."""
    played = Played(beside_a_table)
    played.put("k", 104)
    results = []
    for number in range(10):
        results += played.wait(10)
        played.put("k", 500 + number, topic="right")
    assert results == [("k@100-110=1", 104)]


def test_an_operator_that_two_inputs_reach_is_idle_when_both_are() -> None:
    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        merged = builder.stream("in", STRINGS).merge(builder.stream("right", STRINGS))
        windowed = merged.group_by_key(ps.Grouped.with_(TEXT, TEXT)).windowed_by(GRACE)
        return as_stream(windowed.emit_strategy(CLOSE).count())

    played = Played(build)
    played.put("k", 104)
    for _ in range(20):
        assert played.wait(10) == []
        played.put("k", 104, topic="right")
    assert played.wait(100) == [("k@100-110=21", 104)]


def test_both_sides_of_a_join_share_their_time() -> None:
    played = Played(joined)
    played.put("k", 104, "left")
    for _ in range(20):
        assert played.wait(10) == []
        played.put("j", 104, "right", topic="right")
    assert sorted(played.wait(100)) == [("None+right", 104)] * 20 + [("left+None", 104)]


def test_while_records_wait_no_time_passes() -> None:
    builder = ps.StreamsBuilder()
    tumbling(builder).to("out", ps.Produced.with_(TEXT, TEXT))
    bench = Bench(builder, IDLE)
    topic = TopicPartition("in", 0)
    bench.feed("in", ("k", "v", 104))
    bench.task.set_caught_up(topic, False)  # at the broker
    assert not bench.task.punctuate(500)
    bench.task.set_caught_up(topic, None)  # or it is not known
    assert not bench.task.punctuate(1000)
    bench.task.set_caught_up(topic, True)
    assert not bench.task.punctuate(1099)
    bench.add("in", ("k", "v", 105))  # or in its queue
    assert not bench.task.punctuate(1100)
    bench.run(1100)
    assert not bench.task.punctuate(1199)
    assert bench.task.punctuate(1200)
    bench.task.punctuate(2100)  # windows that have closed are looked for once a second
    assert values(bench.collector.take("out")) == ["k@100-110=2"]


@pytest.mark.parametrize("to", [3_600_000, -3_600_000], ids=["forward", "back"])
def test_no_time_passes_while_the_task_is_frozen_or_its_clock_is_set(to: int) -> None:
    """When the task wakes, it has not fetched the records that came to the broker meanwhile: they would be late."""
    builder = ps.StreamsBuilder()
    tumbling(builder).to("out", ps.Produced.with_(TEXT, TEXT))
    bench = Bench(builder, {"window.idle.advance.ms": 3000})
    bench.feed("in", ("k", "v", 104))
    bench.task.set_caught_up(TopicPartition("in", 0), True)
    assert not any(bench.task.punctuate(each) for each in (500, 1000, to))
    seen = 2000 if to > 0 else 1000  # a pause counts for a second at most
    assert not any(bench.task.punctuate(to + each) for each in range(100, 3000 - seen, 100))
    assert bench.task.punctuate(to + 3000 - seen)


def test_a_topic_that_is_found_later_keeps_time_like_the_others() -> None:
    """The driver's task learns of the topics of a pattern when records are piped into them."""

    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        merged = builder.stream("in", STRINGS).merge(builder.stream(re.compile("more-.*"), STRINGS))
        windowed = merged.group_by_key(ps.Grouped.with_(TEXT, TEXT)).windowed_by(GRACE)
        return as_stream(windowed.emit_strategy(CLOSE).count())

    played = Played(build)
    played.put("k", 104)
    for number in range(20):
        assert played.wait(10) == []
        played.put("k", 104, topic=f"more-{number % 2}")
    assert played.wait(100) == [("k@100-110=21", 104)]


def test_an_update_that_a_cache_holds_back_is_forwarded_before_time_advances() -> None:
    """Otherwise, suppress would close a window with the update before it, and once more with this one."""
    builder = ps.StreamsBuilder()
    suppressed(builder).to("out", ps.Produced.with_(TEXT, TEXT))
    bench = Bench(builder, IDLE)
    bench.feed("in", ("k", "v", 104))
    bench.commit()
    bench.feed("in", ("k", "v", 105))
    assert not bench.task.punctuate(1000)
    assert bench.task.commit_requested
    bench.commit()
    assert bench.task.punctuate(1001)
    assert values(bench.collector.take("out")) == ["k@100-110=2"]


def test_an_operator_waits_for_what_those_before_it_still_hold() -> None:
    """Windows of minutes take the results of hours that close: by the minutes' time these records would be late."""

    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        hours = ps.TimeWindows.of_size_and_grace(1000, 0)
        totals = builder.stream("in", STRINGS).group_by_key().windowed_by(hours).emit_strategy(CLOSE).count()
        windowed = ps.TimeWindows.of_size_and_grace(10, 0)
        again = totals.to_stream().group_by_key(
            ps.Grouped.with_(ps.WindowedSerdes.time_windowed_serde_from(TEXT, 1000), LONG)
        )
        counts = again.windowed_by(windowed).emit_strategy(CLOSE).count()
        return counts.to_stream().map(
            lambda key, value: (key.key.key, f"{key.key.window.start}@{key.window.start}={value}")
        )

    played = Played(build)
    played.put("a", 995)
    played.put("a", 1010)  # the first hour closes
    results = [result for _ in range(400) for result in played.wait(10)]
    assert results == [("0@990=1", 995), ("1000@1010=1", 1010)]
    assert played.dropped == 0


def test_in_the_driver_windows_do_not_wait_for_another_look_behind_a_cached_table_of_which_rows_expire() -> None:
    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        rows: ps.Materialized[str, str] = ps.Materialized.as_("rows").with_ttl(5)
        builder.stream("in", STRINGS).to_table(rows.with_key_serde(TEXT).with_value_serde(TEXT)).filter(bool, ROWS)
        return tumbling(builder)

    played = Played(build)
    played.put("k", 104)
    assert played.wait(100) == [("k@100-110=1", 104)]


# ---- what it does not do ----


def test_stream_time_punctuators_and_the_stream_time_metric_go_by_records_alone() -> None:
    calls: list[int] = []

    class Ticks(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            context.schedule(10, ps.PunctuationType.STREAM_TIME, calls.append)

        def process(self, record: ps.Record[str, str]) -> None: ...

    def build(builder: ps.StreamsBuilder) -> ps.KStream[str, str]:
        builder.stream("in", STRINGS).process(Ticks)
        windowed = builder.stream("right", STRINGS).group_by_key().windowed_by(GRACE)
        return as_stream(windowed.emit_strategy(CLOSE).count())

    played = Played(build)
    played.put("k", 104)
    before = list(calls)
    played.wait(1000)
    assert calls == before
    assert played.driver.metrics().stream_time_ms == 104


@pytest.mark.parametrize("wrong", [0, -1, "soon", True])
def test_the_setting_is_checked(wrong: object) -> None:
    builder = ps.StreamsBuilder()
    tumbling(builder).to("out")
    with pytest.raises(ps.ConfigError, match=r"window\.idle\.advance\.ms"):
        ps.TopologyTestDriver(builder.build(), {"window.idle.advance.ms": wrong})
