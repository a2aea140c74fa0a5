"""Crashes, as in ``test_crashes``, of tasks with operators behind each other, each of which keeps state of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.tasks import context
from tests.actors.crashed import Rows, strings
from tests.actors.rig import STRING
from tests.actors.test_crashes import GRACE, OUT, SPAN, Played, union

WINDOWED = ps.WindowedSerdes.time_windowed_serde_from(STRING, SPAN)
CLOSE = ps.EmitStrategy.on_window_close()


def kept(name: str, caching: bool) -> Any:
    store: Any = ps.Materialized.as_(name).with_key_serde(STRING).with_value_serde(STRING)
    return store.with_caching_enabled() if caching else store.with_caching_disabled()


def as_text(windowed: Any, value: str) -> str:
    return f"{windowed.key}@{windowed.window.start}"


def in_windows(stream: Any, caching: bool, name: str = "windows") -> Any:
    grouped = stream.group_by_key(ps.Grouped.with_(STRING, STRING))
    windows = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(SPAN, GRACE))
    return windows.emit_strategy(CLOSE).aggregate(str, union, kept(name, caching).with_retention(timedelta(hours=1)))


def deduplicated_windows(builder: ps.StreamsBuilder, caching: bool) -> Any:
    ids: Any = ps.Deduplicated.as_("ids").with_key_serde(STRING).with_id_serde(STRING)
    once = builder.stream("in", strings()).deduplicate(timedelta(seconds=30), lambda value: value, ids)
    return in_windows(once, caching).to_stream(as_text)


def windows_of_windows(builder: ps.StreamsBuilder, caching: bool) -> Any:
    first = in_windows(builder.stream("in", strings()), caching, "first").to_stream()
    grouped = first.group_by_key(ps.Grouped.with_(WINDOWED, STRING))
    again = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(SPAN * 4, GRACE)).emit_strategy(CLOSE)
    how: Any = ps.Materialized.as_("again").with_key_serde(WINDOWED).with_value_serde(STRING)
    table: Any = again.aggregate(str, lambda key, value, aggregate: union("", aggregate, value), how)
    return table.to_stream(lambda windowed, value: f"{as_text(windowed.key, value)}@{windowed.window.start}")


def suppressed_sessions(builder: ps.StreamsBuilder, caching: bool) -> Any:
    """Always cached sessions: without caching, a part of a session may be let through, too (docs/RELIABILITY.md)."""
    grouped = builder.stream("in", strings()).group_by_key()
    sessions = grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(SPAN, GRACE))
    table: Any = sessions.aggregate(str, union, union, kept("sessions", True))
    until = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded())
    return table.suppress(until).to_stream(as_text)


def windows_of_a_join(builder: ps.StreamsBuilder, caching: bool) -> Any:
    left, right = builder.stream("in", strings()), builder.stream("other", strings())
    within = ps.JoinWindows.of_time_difference_and_grace(SPAN, timedelta(seconds=1))
    how = ps.StreamJoined.with_(STRING, STRING, STRING)
    both: Any = left.outer_join(right, lambda one, other: f"{one}+{other}", within, how)
    return in_windows(both, caching).to_stream(as_text)


def waiting_for_a_table(builder: ps.StreamsBuilder, caching: bool) -> Any:
    versions: Any = ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store("table", timedelta(hours=1)))
    table: Any = builder.table("other", strings(), versions)
    how: Any = ps.Joined.with_(STRING, STRING, STRING).with_grace_period(GRACE)
    joined = builder.stream("in", strings()).left_join(table, lambda one, other: f"{one}+{other}", how)
    return in_windows(joined, caching).to_stream(as_text)


def expiring(builder: ps.StreamsBuilder, caching: bool) -> Any:
    table: Any = builder.table("in", strings(), kept("rows", caching).with_ttl(SPAN))
    return table.map_values(lambda value: value.upper(), kept("mapped", not caching)).to_stream()


def expiring_join(builder: ps.StreamsBuilder, caching: bool) -> Any:
    one: Any = builder.table("in", strings(), kept("one", caching).with_ttl(SPAN))
    other: Any = builder.table("other", strings(), kept("other", caching).with_ttl(SPAN * 3))
    return one.outer_join(other, lambda left, right: f"{left}+{right}", kept("both", True)).to_stream()


def suppressed_for_a_time(builder: ps.StreamsBuilder, caching: bool) -> Any:
    table: Any = builder.table("in", strings(), kept("rows", caching))
    until = ps.Suppressed.until_time_limit(SPAN, ps.BufferConfig.unbounded())
    return table.map_values(lambda value: value.upper(), kept("mapped", not caching)).suppress(until).to_stream()


Build = Callable[[ps.StreamsBuilder, bool], Any]
FINAL: list[Build] = [
    deduplicated_windows,
    windows_of_windows,
    suppressed_sessions,
    windows_of_a_join,
    waiting_for_a_table,
]
TABLES: list[Build] = [expiring, expiring_join, suppressed_for_a_time]
TWO_TOPICS = {windows_of_a_join, waiting_for_a_table, expiring_join}


def records(build: Build, random: Random) -> Rows:
    rows: Rows = []
    now, in_order = 10**6, build in TWO_TOPICS or build in TABLES
    for number in range(80):
        now += random.choice([1, 100, 1000, 3000]) if random.random() < 0.97 else 100_000
        late = random.randrange(8000) if not in_order and random.random() < 0.3 else 0
        topic = random.choice(["in", "other"]) if build in TWO_TOPICS else "in"
        value = f"v{random.randrange(20) if build is deduplicated_windows else number}"
        rows.append((topic, f"k{random.randrange(3)}", value, now - late))
    return rows


def played(build: Build, seed: int, tmp_path: Path) -> tuple[Played, Played]:
    """Returns the program as played without a crash, and with some."""
    builder = ps.StreamsBuilder()
    build(builder, seed % 2 == 1).to("out", OUT)
    topology, rows = builder.build(), records(build, Random(f"records {build.__name__} {seed}"))
    whole = Played(tmp_path / "whole", topology, None)
    crashing = Played(tmp_path / "crashing", topology, Random(f"faults {build.__name__} {seed}"))
    for each in (whole, crashing):
        each.play(rows)
    return whole, crashing


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("build", FINAL, ids=lambda each: each.__name__)
def test_closed_windows_are_in_the_end_the_same_as_without_a_crash(
    build: Build, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "EMIT_INTERVAL_MS", 0)
    print(f"seed {seed}")
    whole, crashing = (set(each.rig.results()) for each in played(build, seed, tmp_path))
    assert len(whole) >= 4
    assert {each for each in crashing if "end" not in each[0]} == {each for each in whole if "end" not in each[0]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("build", TABLES, ids=lambda each: each.__name__)
def test_a_table_is_in_the_end_as_without_a_crash(build: Build, seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    whole, crashing = (dict(each.rig.results()) for each in played(build, seed, tmp_path))
    there = {key: value for key, value in whole.items() if value is not None and key != "end"}
    assert {key: value for key, value in crashing.items() if value is not None and key != "end"} == there
