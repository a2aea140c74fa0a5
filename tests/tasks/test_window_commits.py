"""Aggregates in windows of time over commits and restarts, with caches and without."""

from __future__ import annotations

from typing import Any

import penstock as ps
from tests.tasks.bench import Bench, Resume, Sent, changelog, number

LONGS = ps.Serdes.long()
STRINGS = ps.Serdes.string()
IN: ps.Consumed[str, str] = ps.Consumed.with_(STRINGS, STRINGS)
CLOSE = ps.EmitStrategy.on_window_close()
CACHED: ps.Materialized[Any, int] = ps.Materialized.as_("c").with_value_serde(LONGS)


def test_with_caching_downstream_hears_of_each_window_once_per_commit() -> None:
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_with_no_grace(10).advance_by(5)
    builder.stream("in", IN).group_by_key().windowed_by(windows).count(CACHED).to_stream().to("out")
    bench = Bench(builder)
    assert bench.feed("in", ("a", "v", 7), ("a", "v", 8), ("a", "v", 12)) == []
    sent = bench.commit()
    logged = [(each.key, number(each.value), each.timestamp) for each in sent if each.topic == changelog("c")]
    assert logged == [
        (b"a" + bytes(12), 2, 8),
        (b"a" + bytes(7) + b"\5" + bytes(4), 3, 12),
        (b"a" + bytes(7) + b"\n" + bytes(4), 1, 12),
    ]
    forwarded = [(each.key, number(each.value), each.timestamp) for each in sent if each.topic == "out"]
    assert forwarded == [(key[:-4], value, timestamp) for key, value, timestamp in logged if key is not None]


def on_close_bench(before: Bench | None = None, windows: Any = None) -> Bench:
    """A count that is emitted on close; ``before``: over the stores and with the offsets of another task."""
    builder = ps.StreamsBuilder()
    windowed = builder.stream("in", IN).group_by_key().windowed_by(windows or ps.TimeWindows.of_size_and_grace(10, 2))
    windowed.emit_strategy(CLOSE).count(CACHED).to_stream().to("out")
    bench = Bench(builder, stores=None if before is None else before.stores, start=before is None)
    if before is not None:
        bench.task.resume(before.task.offsets())
        bench.task.init(0)
    return bench


def results(sent: list[Sent]) -> list[tuple[str | None, int | None]]:
    return [(None if each.key is None else each.key.hex(), number(each.value)) for each in sent if each.topic == "out"]


def at(wall_ms: int, bench: Bench, *records: tuple[str, str, int]) -> list[tuple[str | None, int | None]]:
    """The results that come of these records at that time of the wall clock."""
    bench.add("in", *records)
    bench.run(wall_ms)
    return results(bench.collector.take())


def test_closed_windows_are_looked_for_once_a_second() -> None:
    bench = on_close_bench()
    assert at(0, bench, ("a", "v", 1), ("a", "v", 11), ("a", "v", 12)) == []  # at the second it was looked for
    assert at(999, bench, ("b", "v", 13)) == []
    assert at(1000, bench, ("b", "v", 13)) == [("610000000000000000", 1)]
    assert at(1999, bench, ("b", "v", 40)) == []
    assert at(2000, bench, ("b", "v", 41)) == [("61000000000000000a", 2), ("62000000000000000a", 2)]


def test_windows_emitted_on_close_are_remembered_over_a_restart() -> None:
    bench = on_close_bench()
    at(0, bench, ("a", "v", 1), ("a", "v", 11))
    assert at(1000, bench, ("b", "v", 12)) == [("610000000000000000", 1)]
    bench.commit()
    again = on_close_bench(bench)
    assert at(2000, again, ("b", "v", 22)) == [("61000000000000000a", 1), ("62000000000000000a", 1)]


def test_a_record_that_is_too_late_is_so_after_a_restart_too() -> None:
    bench = on_close_bench()
    bench.feed("in", ("a", "v", 30))
    bench.commit()
    again = on_close_bench(bench)
    again.feed("in", ("a", "v", 1))
    assert again.dropped == 1


def test_windows_that_wait_for_their_close_are_found_again_after_a_restore() -> None:
    bench = on_close_bench()
    bench.feed("in", ("b", "v", 1), ("a", "v", 2), ("c", "v", 3))
    logged = [each for each in bench.commit() if each.topic == changelog("c")]
    fresh = on_close_bench()
    keys, values, timestamps = zip(*((each.key, each.value, each.timestamp) for each in logged), strict=True)
    fresh.state_manager.restore("c", keys, values, timestamps, 3)
    fresh.task.resume(bench.task.offsets())
    assert at(1000, fresh, ("d", "v", 12)) == [
        ("610000000000000000", 1), ("620000000000000000", 1), ("630000000000000000", 1),
    ]  # fmt: skip


def test_windows_are_emitted_by_time_whether_they_are_committed_or_not() -> None:
    bench = on_close_bench()
    at(0, bench, ("b", "v", 1))
    bench.commit()
    at(0, bench, ("a", "v", 2))
    for _ in bench.task.take_snapshot():
        pass
    at(0, bench, ("c", "v", 3))
    assert at(1000, bench, ("d", "v", 13)) == [
        ("610000000000000000", 1), ("620000000000000000", 1), ("630000000000000000", 1),
    ]  # fmt: skip


def test_a_function_that_raises_drops_the_record_if_the_handler_decides_so() -> None:
    builder = ps.StreamsBuilder()
    windows = ps.TimeWindows.of_size_with_no_grace(10)
    amounts = builder.stream("in", IN).group_by_key().windowed_by(windows)
    amounts.aggregate(lambda: 0, lambda key, value, sum: sum + int(value), CACHED).to_stream().to("out")
    handler = Resume()
    bench = Bench(builder, {"processing.exception.handler": handler})
    bench.feed("in", ("k", "one", 1), ("k", "2", 2))
    assert bench.dropped == 1
    assert "KSTREAM-AGGREGATE" in handler.caught[0].context.processor_node_id
    assert [value for _, value in results(bench.commit())] == [2]


def test_windows_that_close_all_at_once_are_not_all_held_in_memory() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", IN).group_by_key()
    minutes = grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(60_000)).emit_strategy(CLOSE)
    kept: Any = ps.Materialized.as_("c").with_value_serde(LONGS).with_caching_disabled().with_retention(10**6)
    minutes.count(kept).to_stream(lambda windowed, _: windowed.key).to("out", ps.Produced.with_(STRINGS, LONGS))
    bench = Bench(builder)
    names = [f"k{number:04}" for number in range(2500)]
    bench.feed("in", *((name, "x", 1) for name in names))
    bench.commit()
    buffer = bench.state_manager.store("c").rows.buffer  # type: ignore[attr-defined]  # a window store's
    buffer.forget_objects()
    bench.add("in", ("other", "x", 60_000))
    bench.run(wall_ms=1000)
    emitted = [sent.key for sent in bench.collector.take("out")]
    assert emitted == [name.encode() for name in names]
    assert len(buffer.clean) < 10
    assert buffer.resident_bytes() < 10_000
