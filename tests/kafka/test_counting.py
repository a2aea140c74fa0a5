"""Counting in Python, where there is no compiled binding."""

from __future__ import annotations

import time

import pytest

from penstock.kafka import counting
from penstock.kafka.counting import RECORD_OVERHEAD, PlainCountingSender

ROW = RECORD_OVERHEAD + len("t") + 2


def test_many_records_are_all_counted_and_some_of_them_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class Watched:
        @staticmethod
        def time() -> float:
            nonlocal looks
            looks += 1
            return 1000.0

    monkeypatch.setattr(counting, "time", Watched)
    sent: list[object] = []
    sink = PlainCountingSender(lambda *record: sent.append(record))
    for _ in range(1064):
        sink.send("t", b"k", b"v", 999_900)
    assert len(sent) == 1064
    assert looks == 64 + 1000 // 8
    seen = sink.take()
    assert (seen.records, seen.bytes, sum(seen.latency.counts)) == (1064, 1064 * ROW, 1064)
    assert seen.latency.total_ms == 1064 * 100


def test_of_few_records_each_is_looked_at_however_many_there_were_before() -> None:
    sink = PlainCountingSender(lambda *_: None)
    now = int(time.time() * 1000)
    for _ in range(100):
        sink.send("t", b"k", b"v", now)
    before = sink.take()
    for age in (70_000, 120_000, 240_000):
        sink.send("t", b"k", b"v", now - age)
    seen = sink.take()
    assert seen.latency_min_ms is not None
    assert 70_000 <= seen.latency_min_ms < 120_000
    grown = [after - was for after, was in zip(seen.latency.counts, before.latency.counts, strict=True)]
    # Some of the hundred before them were not looked at: the first one after counts for them, too.
    assert grown[-3:] == [5 + 1 + 1, 0, 0]
    assert sum(seen.latency.counts) == 103
