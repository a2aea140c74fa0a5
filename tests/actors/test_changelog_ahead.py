"""A crash leaves changelogs ahead of the committed offsets: the records behind these come again.

They must find what they found the first time, even if the changelogs have brought much later times to stores whose
rows expire. Otherwise, a window that was open at the commit would begin again with the records after it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

import penstock as ps
from penstock.actors.status import RestoreFigures
from penstock.actors.task_host import hosted_task
from penstock.common.ids import TopicPartition
from penstock.common.windows import Windowed
from penstock.tasks import context
from tests.actors.crashed import TASK, Crashed, Crashing, Rows, strings
from tests.actors.crashed import crashed as crashed
from tests.actors.rig import STRING, follow, settle

MINUTE = timedelta(minutes=1)
NONE = timedelta(0)


def joined(key: str, value: str, aggregate: str) -> str:
    return f"{aggregate}{value}"


def merged(key: str, aggregate: str, other: str) -> str:
    return aggregate + other


def as_text(windowed: Windowed[str], value: str) -> str:
    return f"{windowed.key}@{windowed.window.start}"


def windows(kind: str, on_close: bool, caching: bool, beside: bool = False) -> ps.Topology:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", strings()).group_by_key()
    kept: Any = ps.Materialized.as_("counts").with_key_serde(STRING).with_value_serde(STRING)
    kept = kept.with_caching_enabled() if caching else kept.with_caching_disabled().with_retention(timedelta(minutes=3))
    emit = ps.EmitStrategy.on_window_close() if on_close else ps.EmitStrategy.on_window_update()
    if kind == "time":
        time = grouped.windowed_by(ps.TimeWindows.of_size_and_grace(MINUTE, NONE)).emit_strategy(emit)
        table: Any = time.aggregate(str, joined, kept)
    elif kind == "sliding":
        sliding = grouped.windowed_by(ps.SlidingWindows.of_time_difference_and_grace(MINUTE, NONE)).emit_strategy(emit)
        table = sliding.aggregate(str, joined, kept)
    else:
        sessions = grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_and_grace(MINUTE, NONE)).emit_strategy(emit)
        table = sessions.aggregate(str, joined, merged, kept)
    results = table.to_stream(as_text)
    if beside:
        results = results.merge(builder.stream("other", strings()))
    results.to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def stream_join(outer: bool, beside: bool = False) -> ps.Topology:
    builder = ps.StreamsBuilder()
    left, right = builder.stream("in", strings()), builder.stream("other", strings())
    within = ps.JoinWindows.of_time_difference_and_grace(MINUTE, MINUTE)
    how = ps.StreamJoined.with_(STRING, STRING, STRING)
    call = left.outer_join if outer else left.join
    results = call(right, lambda one, other: f"{one}+{other}", within, how)
    if beside:
        results = results.merge(builder.stream("third", strings()))
    results.to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def versioned() -> ps.Topology:
    builder = ps.StreamsBuilder()
    store: Any = ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store("counts", MINUTE))
    table: Any = builder.table("other", strings(), store)
    stream = builder.stream("in", strings())
    how: Any = ps.Joined.with_(STRING, STRING, STRING)
    stream.left_join(table, lambda one, other: f"{one}+{other}", how).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def expiring() -> ps.Topology:
    builder = ps.StreamsBuilder()
    rows: Any = ps.Materialized.as_("rows").with_ttl(MINUTE).with_caching_disabled()
    kept: Any = ps.Materialized.as_("kept").with_key_serde(STRING).with_value_serde(STRING)
    table = builder.table("in", strings(), rows).map_values(str.upper, kept)
    table.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def waiting(beside: bool = False) -> ps.Topology:
    """Joins with a table that has no changelog: after a crash, it holds only what is committed."""
    builder = ps.StreamsBuilder()
    store: Any = ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store("rows", MINUTE))
    table: Any = builder.table("other", strings(), store.with_logging_disabled())
    stream = builder.stream("in", strings())
    how: Any = ps.Joined.with_(STRING, STRING, STRING).with_grace_period(MINUTE)
    results = stream.left_join(table, lambda one, other: f"{one}+{other}", how)
    if beside:
        results = results.merge(builder.stream("third", strings()))
    results.to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


BEFORE: Rows = [("in", "a", "1", 60_000), ("in", "a", "2", 61_000)]
BEHIND: Rows = [("in", "a", "3", 70_000), ("in", "b", "4", 1_000_000)]


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
def test_a_window_that_was_open_at_the_commit_loses_nothing(kind: str, crashed: Crashed) -> None:
    results = crashed(windows(kind, False, False), BEFORE, BEHIND, [])
    start = {"time": 60_000, "sliding": 10_000, "session": 60_000}[kind]
    last = {key: value for key, value in results if value is not None}
    assert last[f"a@{start}"] == "1233", "at least once: the record that came again is in it twice"


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
def test_nor_where_another_topic_of_the_task_was_far_ahead_of_it(kind: str, crashed: Crashed) -> None:
    topology = windows(kind, False, False, beside=True)
    results = crashed(topology, [("other", "z", "z", 90_000_000), *BEFORE], BEHIND, [])
    start = {"time": 60_000, "sliding": 10_000, "session": 60_000}[kind]
    assert {key: value for key, value in results if value is not None}[f"a@{start}"] == "1233"


def test_a_join_finds_the_other_streams_again_where_a_third_topic_was_far_ahead(crashed: Crashed) -> None:
    before: Rows = [("third", "z", "z", 90_000_000), ("other", "a", "r", 60_000)]
    behind: Rows = [("in", "a", "l", 70_000), ("other", "b", "x", 9_000_000)]
    assert ("a", "l+r") in crashed(stream_join(False, beside=True), before, behind, [])


def test_so_does_a_late_record_whose_own_stream_was_far_ahead(crashed: Crashed) -> None:
    """The view of a stream's store depends on that stream alone."""
    before: Rows = [("in", "z", "z", 90_000_000), ("other", "a", "r", 60_000)]
    behind: Rows = [("in", "a", "l", 70_000), ("other", "b", "x", 9_000_000)]
    assert ("a", "l+r") in crashed(stream_join(False), before, behind, [])


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
def test_a_window_that_closed_behind_the_commit_is_emitted_again(
    kind: str, crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "EMIT_INTERVAL_MS", 0)
    behind: Rows = [("in", "a", "3", 70_000), ("in", "b", "4", 190_000), ("in", "c", "5", 9_000_000)]
    results = crashed(windows(kind, True, False), BEFORE, behind, [])
    start = {"time": 60_000, "sliding": 10_000, "session": 60_000}[kind]
    assert dict(results)[f"a@{start}"] == "1233"


@pytest.mark.parametrize("on_close", [False, True])
def test_nor_does_it_where_a_session_has_grown_long_behind_the_commit(
    on_close: bool, crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "EMIT_INTERVAL_MS", 0)
    longer: Rows = [("in", "b", "x", timestamp) for timestamp in range(120_000, 1_000_000, 50_000)]
    behind: Rows = [("in", "b", "x", 70_000), ("in", "a", "3", 75_000), *longer]
    results = crashed(windows("session", on_close, False), BEFORE, behind, [])
    assert {key: value for key, value in results if value is not None}["a@60000"] == "1233"


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
def test_so_it_is_after_a_commit_that_was_refused_when_its_caches_were_flushed(kind: str, tmp_path: Path) -> None:
    rig = Crashing(tmp_path, windows(kind, False, True))
    loop = rig.running()
    rig.send(BEFORE)
    settle(loop)
    rig.commit(loop)
    rig.send(BEHIND)
    rig.coordinator.refusal = "another has the task"
    rig.commit(loop)
    rig.coordinator.refusal = ""
    loop._finish("replaced")
    behind = len(rig.results())
    loop = rig.running(epoch=2)
    rig.commit(loop)
    rig.stop(loop)
    start = {"time": 60_000, "sliding": 10_000, "session": 60_000}[kind]
    last = {key: value for key, value in rig.results(behind) if value is not None}
    assert last[f"a@{start}"] == "1233"


def test_a_record_that_comes_again_finds_the_other_streams_again(crashed: Crashed) -> None:
    before: Rows = [("other", "a", "r", 60_000)]
    behind: Rows = [("in", "a", "l", 70_000), ("other", "b", "x", 9_000_000)]
    assert ("a", "l+r") in crashed(stream_join(False), before, behind, [])


@pytest.mark.parametrize("ahead", [9_000_000, 140_000], ids=["beyond the window", "within the grace period"])
def test_a_repeated_record_of_an_outer_join_is_not_reported_as_unmatched_if_it_has_a_match(
    ahead: int, crashed: Crashed
) -> None:
    matches: Rows = [("other", "a", "r", 60_000)]
    comes_later = ahead < 200_000
    before: Rows = [("in", "z", "y", 1_000)] if comes_later else matches
    behind: Rows = [("in", "a", "l", 70_000), ("other", "b", "x", ahead)]
    then: Rows = matches if comes_later else []
    results = crashed(stream_join(True), before, behind, then)
    assert ("a", "l+r") in results
    assert ("a", "l+None") not in results


def test_a_record_that_comes_again_finds_the_version_of_its_time_again(crashed: Crashed) -> None:
    before: Rows = [("other", "a", "v1", 10_000)]
    behind: Rows = [("in", "a", "s", 20_000), ("other", "a", "v2", 5_000_000), ("other", "a", "v3", 9_000_000)]
    results = crashed(versioned(), before, behind, [])
    assert results == [("a", "s+v1")]


def test_a_table_made_of_one_that_expires_hears_of_it_again(crashed: Crashed) -> None:
    """Its deletion waited in a cache; that in the table that expires was in its changelog already."""
    results = crashed(expiring(), [("in", "a", "x", 60_000)], [("in", "b", "y", 200_000)], [])
    assert results == [("a", None), ("b", "Y")]


@pytest.mark.parametrize("beside", [False, True])
def test_a_record_that_waits_for_a_table_waits_again(beside: bool, crashed: Crashed) -> None:
    far: Rows = [("third", "z", "z", 90_000_000)] if beside else []
    before: Rows = [*far, ("other", "a", "v1", 10_000), ("in", "y", "", 15_000)]
    behind: Rows = [("in", "a", "s", 20_000), ("other", "x", "", 30_000), ("other", "a", "v2", 19_000)]
    behind += [("in", "b", "t", 9_000_000)]
    results = crashed(waiting(beside), before, behind, [])
    assert ("a", "s+v2") in results
    assert ("a", "s+v1") not in results


def gathered(waits: str) -> ps.Topology:
    """Returns a program that gathers what leaves a store of waiting records, in a table that is cached."""
    builder = ps.StreamsBuilder()
    if waits == "outer join":
        left, right = builder.stream("in", strings()), builder.stream("other", strings())
        within = ps.JoinWindows.of_time_difference_and_grace(MINUTE, MINUTE)
        how = ps.StreamJoined.with_(STRING, STRING, STRING)
        results = left.outer_join(right, lambda one, other: f"{one}+{other}", within, how)
    else:
        store: Any = ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store("rows", MINUTE))
        table: Any = builder.table("other", strings(), store)
        joined: Any = ps.Joined.with_(STRING, STRING, STRING).with_grace_period(MINUTE)
        results = builder.stream("in", strings()).left_join(table, lambda one, other: f"{one}+{other}", joined)
    kept: Any = ps.Materialized.as_("kept").with_key_serde(STRING).with_value_serde(STRING)
    last = results.group_by_key(ps.Grouped.with_(STRING, STRING)).reduce(lambda old, new: new, kept)
    last.to_stream().to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


WAITS = ["outer join", "grace period"]


@pytest.mark.parametrize("waits", WAITS)
def test_a_record_that_had_waited_at_the_commit_and_did_no_more_comes_out(waits: str, crashed: Crashed) -> None:
    before: Rows = [("in", "a", "l", 60_000)]
    assert ("a", "l+None") in crashed(gathered(waits), before, [("in", "b", "x", 9_000_000)], [])


@pytest.mark.parametrize("on_a_new_disk", [False, True])
@pytest.mark.parametrize("waits", WAITS)
def test_one_that_waited_no_more_at_the_commit_does_not_come_again(
    waits: str, on_a_new_disk: bool, tmp_path: Path
) -> None:
    rig = Crashing(tmp_path, gathered(waits))
    loop = rig.running()
    for row in (("in", "a", "l", 60_000), ("other", "a", "r", 60_001), ("in", "b", "x", 9_000_000)):
        rig.send([row])
        settle(loop)
    rig.commit(loop)
    rig.stop(loop)
    behind = len(rig.results())
    if on_a_new_disk:
        rmtree(rig.spec.config.state_dir)
    loop = rig.running(epoch=2)
    rig.send([("in", "c", "y", 90_000_000)])
    rig.commit(loop)
    rig.stop(loop)
    assert [key for key, _ in rig.results(behind)] == ["b"]


Make = Callable[[], ps.Topology]


def test_after_a_start_behind_records_that_retention_has_deleted_what_is_late_stays_so(tmp_path: Path) -> None:
    rig = Crashing(tmp_path, windows("time", True, False))
    loop = rig.running()
    rig.send([("in", "a", "1", 60_000), ("in", "b", "2", 9_000_000)])
    settle(loop)
    rig.stop(loop)
    rig.send([("in", "a", "gone", 9_000_000), ("in", "a", "gone", 9_000_001)])
    rig.broker.delete_records(TopicPartition("in", 0), 4)
    behind = len(rig.results())
    loop = rig.running(epoch=2)
    settle(loop)
    ((hosted),) = loop._tasks.values()
    assert hosted.status(loop._consumer, RestoreFigures(), 0.0, 0).lost_records == 2
    rig.commit(loop)
    assert rig.committed() == 4, "the next start must not find the lost position again"
    rig.send([("in", "a", "late", 60_001), ("in", "c", "3", 9_200_000)])
    rig.commit(loop)
    assert hosted.task.metrics().dropped_records_total == 1
    assert rig.results(behind) == [("b@9000000", "2")]
    rig.stop(loop)


@pytest.mark.parametrize("make", [lambda: windows("time", False, False), versioned], ids=["windows", "versions"])
def test_after_an_ordinary_restart_what_had_expired_stays_so(make: Make, tmp_path: Path) -> None:
    rig = Crashing(tmp_path, make())
    loop = rig.running()
    topic = "other" if "other" in rig.broker.topics() else "in"
    rig.send([(topic, "a", "1", 60_000), (topic, "a", "2", 9_000_000)])
    settle(loop)
    rig.stop(loop)
    loop = rig.running(epoch=2)
    ((hosted),) = loop._tasks.values()
    store: Any = hosted.state_manager.store("counts")
    kept = store.versions if topic == "other" else store.rows
    assert kept.expiry_time == kept.stream_time > 8_000_000
    rig.stop(loop)


def test_a_standby_keeps_what_a_commit_needs_though_it_covers_a_later_crashed_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog in front of the second commit has rows of a time that the commit has not reached: those of the
    attempt that crashed in between."""
    for size in ("_FIRST_BATCH", "_LARGEST_BATCH"):
        monkeypatch.setattr(hosted_task, size, 1)
    rig = Crashing(tmp_path / "here", windows("time", False, False))
    there = rig.on_another_node(tmp_path / "there")
    first, standby = rig.running(), there.loop(2)
    rig.send(BEFORE)
    settle(first)
    rig.commit(first)
    standby.assign(1, {}, rig.reads(TASK))
    follow(rig, standby)
    settle(first)
    rig.send([*[("in", "c", "0", 62_000)] * 20, *BEHIND])
    settle(first)
    first._finish("killed")
    second = rig.loop(3)
    second.assign(2, rig.reads(TASK))
    while rig.committed() == 2:
        rig.clock.now_ms += 1001  # a commit after each record
        second.step()
    second._finish("killed")
    assert (rig.committed() or 0) < 10, "else nothing is at stake"
    follow(rig, standby)
    kept: Any = standby._standbys.by_id[TASK].state_manager.store("counts")
    assert kept.rows.stream_time > 900_000, "else it has not come to the end of the crashed attempt"
    behind = len(rig.results())
    standby.assign(3, rig.reads(TASK))
    settle(standby)
    rig.commit(standby)
    rig.stop(standby)
    assert {key: value for key, value in rig.results(behind) if value is not None}["a@60000"] == "1233"
