"""Each kind of store is compared, or named with the reason for which it is not: the table of docs/AUDIT.md."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

import penstock as ps
from tests.pipeline.audit.rig import Application
from tests.pipeline.audit.test_audit import STRING, consumed, foreign_key

IN_MEMORY = "it is kept in memory, and has no rows"


def joined() -> ps.Topology:
    builder = ps.StreamsBuilder()
    left, right = (builder.stream(topic, consumed()) for topic in ("left", "right"))
    windows = ps.JoinWindows.of_time_difference_and_grace(timedelta(seconds=5), timedelta(seconds=2))
    joined = ps.StreamJoined.with_(STRING, STRING, STRING)
    left.outer_join(right, lambda ours, theirs: f"{ours}+{theirs}", windows, joined).to(
        "out", ps.Produced.with_(STRING, STRING)
    )
    counts = left.group_by_key().windowed_by(ps.TimeWindows.of_size_and_grace(timedelta(seconds=5), timedelta(0)))
    counts.count(ps.Materialized.as_("windows")).suppress(
        ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()).with_name("held")
    )
    return builder.build()


def test_stores_of_stream_stream_joins_are_compared_and_those_of_suppress_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(joined(), tmp_path, ["left", "right", "out"])
    chance = random.Random(3)
    for number in range(200):
        app.send(chance.choice(("left", "right")), chance.choice("abc"), b"v%d" % number, number * 300, number % 2)
        if number % 60 == 0:
            app.settle()
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    kinds = {it.store.partition("-0")[0] for it in report.stores}
    assert {"KSTREAM-OUTERTHIS", "KSTREAM-OUTEROTHER", "KSTREAM-OUTERSHARED", "windows"} == kinds
    assert all(it.found for it in report.stores if "SHARED" not in it.store), "only a few records wait for another"
    assert report.not_compared == {"held-store": IN_MEMORY}


def test_subscriptions_of_foreign_key_joins_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Application(foreign_key(), tmp_path, ["orders", "customers"], statestore_cache_max_bytes=0)
    app.send("customers", "c1", b"name", 1, 1)
    for number in range(10):
        app.send("orders", f"o{number}", b"c1/%d" % number, 2 + number, number % 2)
    app.settle()
    report = app.audit(monkeypatch)
    assert report.is_clean, report.differences
    (subscriptions,) = (it for it in report.stores if "SUBSCRIPTION" in it.store)
    assert subscriptions.found == 10
