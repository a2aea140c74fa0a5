"""A crash leaves the changelogs of ``suppress`` and ``deduplicate`` ahead of the committed offsets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import penstock as ps
from tests.actors.crashed import Crashed, Rows, strings
from tests.actors.crashed import crashed as crashed
from tests.actors.rig import STRING

MINUTE = timedelta(minutes=1)
NONE = timedelta(0)


def joined(key: str, value: str, aggregate: str) -> str:
    return f"{aggregate}{value}"


def merged(key: str, aggregate: str, other: str) -> str:
    return aggregate + other


def as_text(windowed: ps.Windowed[str], value: str) -> str:
    return f"{windowed.key}@{windowed.window.start}"


def final_results(kind: str) -> ps.Topology:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", strings()).group_by_key()
    kept: Any = ps.Materialized.as_("counts").with_key_serde(STRING).with_value_serde(STRING).with_caching_disabled()
    if kind == "session":
        sessions = grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(MINUTE, NONE))
        table: Any = sessions.aggregate(str, joined, merged, kept)
    else:
        windows = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(MINUTE, NONE))
        table = windows.aggregate(str, joined, kept)
    final = ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()).with_name("final")
    table.suppress(final).to_stream(as_text).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def latest(within: timedelta) -> ps.Topology:
    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_("latest").with_key_serde(STRING).with_value_serde(STRING).with_caching_disabled()
    table = builder.stream("in", strings()).group_by_key().reduce(lambda old, new: old + new, kept)
    held: Any = ps.Suppressed.until_time_limit(within, ps.BufferConfig.unbounded()).with_name("held")
    table.suppress(held).to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def once(by_id: bool) -> ps.Topology:
    builder = ps.StreamsBuilder()
    seen: Any = ps.Deduplicated.as_("seen")
    stream: Any = builder.stream("in", strings())
    if by_id:
        first = stream.deduplicate(MINUTE, lambda value: value, seen.with_id_serde(STRING))
    else:
        first = stream.deduplicate(MINUTE, deduplicated=seen)
    first.to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


@pytest.mark.parametrize("kind", ["time", "session"])
def test_a_window_that_suppress_let_go_behind_the_commit_comes_out_again_with_all_that_was_in_it(
    kind: str, crashed: Crashed
) -> None:
    before: Rows = [("in", "a", "1", 60_000), ("in", "a", "2", 61_000)]
    behind: Rows = [("in", "a", "3", 70_000), ("in", "b", "4", 1_000_000)]
    results = crashed(final_results(kind), before, behind, [])
    assert dict(results)["a@60000"] == "1233", "at least once: the record that came again is in it twice"


@pytest.mark.parametrize("kind", ["time", "session"])
def test_a_window_that_suppress_still_holds_is_let_go_with_all_that_was_in_it(kind: str, crashed: Crashed) -> None:
    before: Rows = [("in", "a", "1", 60_000), ("in", "a", "2", 61_000)]
    results = crashed(final_results(kind), before, [("in", "a", "3", 70_000)], [("in", "b", "4", 1_000_000)])
    assert results[-1] == ("a@60000", "1233")
    if kind == "time":  # of a merged session a part comes out, too: docs/RELIABILITY.md
        assert len(results) == 1


def test_an_update_that_suppress_holds_for_a_time_is_let_go_after_it(crashed: Crashed) -> None:
    before: Rows = [("in", "a", "1", 60_000)]
    behind: Rows = [("in", "a", "2", 70_000)]
    results = crashed(latest(MINUTE), before, behind, [("in", "b", "x", 119_999), ("in", "c", "x", 120_000)])
    assert results == [("a", "122")]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_first_record_that_comes_again_is_not_its_own_duplicate(by_id: bool, crashed: Crashed) -> None:
    behind: Rows = [("in", "b", "2", 70_000), ("in", "b", "2", 71_000), ("in", "c", "3", 1_000_000)]
    results = crashed(once(by_id), [("in", "a", "1", 60_000)], behind, [])
    assert results == [("b", "2"), ("c", "3")]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_duplicate_of_a_committed_record_stays_one_though_the_time_was_far_ahead(
    by_id: bool, crashed: Crashed
) -> None:
    before: Rows = [("in", "a", "1", 60_000)]
    behind: Rows = [("in", "a", "1", 90_000), ("in", "c", "3", 9_000_000)]
    assert crashed(once(by_id), before, behind, []) == [("c", "3")]
