"""Windows that are emitted on close, looked for by the wall clock: each comes, however fast stream time moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.tasks import context
from tests.tasks.bench import STRINGS, Bench, changelog

MINUTE = timedelta(minutes=1)
DAY_MS = 86_400_000
WINDOWS = {
    "tumbling": ps.TimeWindows.of_size_with_no_grace(MINUTE),
    "hopping": ps.TimeWindows.of_size_and_grace(MINUTE, MINUTE).advance_by(timedelta(seconds=25)),
    "sliding": ps.SlidingWindows.of_time_difference_with_no_grace(MINUTE),
    "session": ps.SessionWindows.of_inactivity_gap_with_no_grace(MINUTE),
}
HISTORY = [(f"k{number // 7}", "v", DAY_MS + number * 10_000) for number in range(500)]
"""Records of almost an hour and a half."""
Result = tuple[bytes | None, bytes | None]


@pytest.fixture(params=[True, False], ids=["caching", "no caching"])
def caching(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=WINDOWS)
def windows(request: pytest.FixtureRequest) -> Any:
    return WINDOWS[request.param]


def counted(windows: Any, caching: bool, before: Bench | None = None) -> Bench:
    """Returns a count that is emitted on close; ``before``: over the stores and with the offsets of another task."""
    builder = ps.StreamsBuilder()
    how: ps.Materialized[Any, int] = ps.Materialized.as_("s")
    how = how.with_caching_enabled() if caching else how.with_caching_disabled()
    windowed = builder.stream("in", STRINGS).group_by_key().windowed_by(windows)
    windowed.emit_strategy(ps.EmitStrategy.on_window_close()).count(how).to_stream().to("out")
    bench = Bench(builder, stores=None if before is None else before.stores, start=before is None)
    if before is not None:
        bench.task.resume(before.task.offsets())
        bench.task.init(0)
    return bench


def played(bench: Bench, records: Sequence[tuple[str, str, int]], at_once: int, wall_ms: int = 0) -> list[Result]:
    """Returns the results of ``records``, with a commit behind each ``at_once`` of them; the clock does not move."""
    found: list[Result] = []
    for first in range(0, len(records), at_once):
        bench.add("in", *records[first : first + at_once])
        bench.run(wall_ms)
        found += results(bench)
        bench.commit()
    return found


def results(bench: Bench) -> list[Result]:
    return [(sent.key, sent.value) for sent in bench.collector.take("out")]


def all_results(windows: Any, caching: bool, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """Returns the results of a task that looks for closed windows at each record."""
    with monkeypatch.context() as patched:
        patched.setattr(context, "EMIT_INTERVAL_MS", 0)
        return played(counted(windows, caching), [*HISTORY, ("end", "v", 2 * DAY_MS)], 1)


@pytest.mark.parametrize("at_once", [1, 37, 1000])
def test_a_backlog_of_hours_that_is_read_in_less_than_a_second_has_all_of_its_results(
    windows: Any, caching: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = counted(windows, caching)
    found = played(bench, HISTORY, at_once)
    found += played(bench, [("end", "v", 2 * DAY_MS)], 1, wall_ms=1000)
    assert len(found) > 50
    assert Counter(found) == Counter(all_results(windows, caching, monkeypatch))


def test_windows_closed_before_a_restart_are_emitted_even_if_the_next_record_is_far_ahead(
    windows: Any, caching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = counted(windows, caching)
    found = played(bench, HISTORY, 50)
    again = counted(windows, caching, before=bench)
    found += played(again, [("end", "v", 2 * DAY_MS)], 1)
    assert Counter(found) == Counter(all_results(windows, caching, monkeypatch))


def test_windows_closed_before_a_restore_are_emitted_too(
    windows: Any, caching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = counted(windows, caching)
    found, logged = list[Result](), list[Any]()
    for first in range(0, len(HISTORY), 50):
        bench.add("in", *HISTORY[first : first + 50])
        bench.run()
        sent = [*bench.collector.take(), *bench.commit()]
        found += [(each.key, each.value) for each in sent if each.topic == "out"]
        logged += [each for each in sent if each.topic == changelog("s")]
    fresh = counted(windows, caching)
    fresh.state_manager.continue_from(bench.task.offsets())
    keys, values, timestamps = zip(*((each.key, each.value, each.timestamp) for each in logged), strict=True)
    fresh.state_manager.restore("s", keys, values, timestamps, len(logged))
    fresh.task.resume(bench.task.offsets())
    found += played(fresh, [("end", "v", 2 * DAY_MS)], 1)
    assert Counter(found) == Counter(all_results(windows, caching, monkeypatch))


def test_results_that_cannot_be_lost_are_looked_for_once_a_second() -> None:
    bench = counted(ps.TimeWindows.of_size_with_no_grace(10), caching=True)
    assert played(bench, [("a", "v", DAY_MS), ("a", "v", DAY_MS + 10), ("a", "v", DAY_MS + 20)], 1) == []
    assert len(played(bench, [("a", "v", DAY_MS + 30)], 1, wall_ms=1000)) == 3


def test_suppress_behind_them_holds_each_until_a_later_result_ends_a_grace_period_after() -> None:
    builder = ps.StreamsBuilder()
    windowed = (
        builder.stream("in", STRINGS).group_by_key().windowed_by(ps.TimeWindows.of_size_and_grace(MINUTE, MINUTE))
    )
    counts = windowed.emit_strategy(ps.EmitStrategy.on_window_close()).count()
    final = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())
    counts.to_stream().to("out")
    counts.suppress(final).to_stream().to("suppressed")
    bench = Bench(builder)
    came = dict[str, list[int]](out=[], suppressed=[])
    for minute in range(8):
        bench.add("in", ("a", "v", minute * 60_000))
        bench.run(minute * 1000)
        for sent in bench.collector.take():
            if sent.topic in came:
                came[sent.topic].append(minute)
    assert came == {"out": [2, 3, 4, 5, 6, 7], "suppressed": [4, 5, 6, 7]}
