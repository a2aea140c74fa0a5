"""Questions that look at many rows to find few: records are processed in between, and no answer takes for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.store_queries import StoreQuery
from penstock.common.ids import TaskId
from penstock.state.windowed.queries import WindowRangeQuery
from tests.actors.rig import STRING, Rig, settle

ROWS = 5000


def windows_of(tmp_path: Path) -> Rig:
    """With a window for each of many keys, all but the last at the same time, and nothing committed."""
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    windows = ps.TimeWindows.of_size_and_grace(1000, 100_000)
    grouped.windowed_by(windows).count(ps.Materialized.as_("counts"))
    rig = Rig(tmp_path, builder.build(), statestore_cache_max_bytes=1 << 30, commit_interval_ms=10**9)
    rig.write("in", *((f"k{number:05}", "x", 1) for number in range(ROWS)), ("z", "x", 5000))
    return rig


def test_a_question_of_few_rows_among_many_gives_way_to_records(tmp_path: Path) -> None:
    rig = windows_of(tmp_path)
    loop = rig.running()
    settle(loop)
    asked = loop.query([StoreQuery(TaskId(0, 0), "counts", WindowRangeQuery(5000, 9000), limit=10)])
    steps = 0
    while not asked.done():
        loop.step()
        steps += 1
    assert steps >= ROWS / 512
    (answer,) = asked.result()
    assert [row.key[:-12] for row in answer.rows] == [b"z"]
    assert not answer.more


def test_an_answer_that_has_passed_over_very_many_rows_has_a_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.actors.loop.answers.MOST_CHUNKS", 3)
    rig = windows_of(tmp_path)
    loop = rig.running()
    settle(loop)
    after: bytes | None = None
    found: list[bytes] = []
    calls = 0
    while calls == 0 or after is not None:
        asked = loop.query([StoreQuery(TaskId(0, 0), "counts", WindowRangeQuery(5000, 9000), after=after, limit=10)])
        while not asked.done():
            loop.step()
        (answer,) = asked.result()
        found += [row.key[:-12] for row in answer.rows]
        assert answer.more is (answer.reached is not None)
        assert answer.reached is None or after is None or answer.reached > after
        after = answer.reached
        calls += 1
    assert found == [b"z"]
    assert calls == ROWS // 512 // 3 + 1
