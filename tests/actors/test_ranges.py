"""Range queries beside records: in chunks, bounded in bytes and in number. On the fake broker."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.loop.answers import CHUNK_ROWS
from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from penstock.state.queries import CountQuery, RangeQuery
from tests.actors.rig import STRING, Rig, count_of, key_query, query, settle


def ranging(limit: int) -> StoreQuery:
    return StoreQuery(TaskId(0, 0), "counts", RangeQuery(), limit=limit)


def test_a_large_range_is_read_in_chunks_and_records_are_processed_in_between(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=1 << 30, commit_interval_ms=10**9)
    rig.write("in", *((f"k{number:05}", "x", number + 1) for number in range(5000)))
    loop = rig.running()
    settle(loop)
    asked = loop.query([ranging(5000), key_query("k00001")])
    small = loop.query([ranging(3)])
    rig.write("in", ("a", "x", 1))
    steps = 0
    while not asked.done():
        loop.step()
        steps += 1
        if steps == 3:
            assert small.done(), "a small range does not wait behind a large one"
            assert count_of(loop, "a") == 1, "records are processed while it is read"
    assert steps >= 5000 / CHUNK_ROWS
    whole, one = asked.result()
    assert [row[0] for row in whole.rows] == [b"k%05d" % number for number in range(5000)]
    assert not whole.more
    assert one.rows[0][1] == 1


def test_an_answer_has_a_limit_in_bytes_and_reports_that_there_are_more_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.actors.loop.answers.ANSWER_BYTES", 10_000)
    monkeypatch.setattr("penstock.actors.loop.answers.LEAST_BYTES", 100)
    builder = ps.StreamsBuilder()
    builder.table("in", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("counts"))
    rig = Rig(tmp_path, builder.build())
    rig.write("in", *((f"k{number:02}", "x" * 1000, 1) for number in range(30)))
    loop = rig.running()
    settle(loop)
    asked = loop.query([ranging(100)])
    while not asked.done():
        loop.step()
    (answer,) = asked.result()
    assert (len(answer.rows), answer.more) == (10, True)
    assert 10_000 <= answer.size < 11_100
    asked = loop.query([StoreQuery(TaskId(0, 0), "counts", RangeQuery(b"k25"), limit=100)])
    while not asked.done():
        loop.step()
    assert (len(asked.result()[0].rows), asked.result()[0].more) == (5, False)


def test_so_many_calls_of_ranges_may_wait_and_no_more_and_none_is_forgotten_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.actors.loop.answers.MOST_WAITING_CALLS", 4)
    rig = Rig(tmp_path)
    rig.write("in", *((f"k{number:04}", "x", number + 1) for number in range(2000)))
    loop = rig.running()
    asked = [loop.query([ranging(2000)]) for _ in range(6)]
    loop.step()
    assert [call.done() for call in asked] == [False] * 4 + [True] * 2
    assert asked[-1].result()[0].failure is QueryFailure.BUSY
    assert asked[-1].result()[0].detail == "4 calls with ranges wait for an answer"
    loop._finish("made by the test")
    for call in asked[:4]:
        assert isinstance(call.exception(), ApplicationStateError)


def test_a_count_of_what_is_committed_leaves_out_what_no_commit_has_taken(tmp_path: Path) -> None:
    """Found wrong: it was the count of all."""
    rig = Rig(tmp_path, commit_interval_ms=1000)

    def counted(committed: bool) -> int:
        (answer,) = query(loop, StoreQuery(TaskId(0, 0), "counts", CountQuery(), committed=committed))
        assert answer.failure is None
        return int(answer.rows[0].value)

    rig.write("in", *((key, "x", 1) for key in "abc"))
    loop = rig.running()
    settle(loop)
    assert (counted(committed=True), counted(committed=False)) == (0, 3)
    rig.commit(loop)
    assert (counted(committed=True), counted(committed=False)) == (3, 3)
    rig.write("in", *((key, "x", 1) for key in "de"))
    settle(loop)
    assert (counted(committed=True), counted(committed=False)) == (3, 5)


def test_a_call_may_range_over_any_number_of_tasks_however_few_calls_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.actors.loop.answers.MOST_WAITING_CALLS", 1)
    rig = Rig(tmp_path, partitions=70)
    for partition in range(70):
        rig.write("in", (f"k{partition}", "x", 1), partition=partition)
    loop = rig.running()
    asked = loop.query([StoreQuery(TaskId(0, p), "counts", RangeQuery(), limit=10) for p in range(70)])
    while not asked.done():
        loop.step()
    answers = asked.result()
    assert {answer.failure for answer in answers} == {None}
    assert [row[0] for answer in answers for row in answer.rows] == [b"k%d" % p for p in range(70)]


def test_the_ranges_of_a_call_share_the_limit_in_bytes_and_each_gives_a_row_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.actors.loop.answers.ANSWER_BYTES", 16_000)
    monkeypatch.setattr("penstock.actors.loop.answers.LEAST_BYTES", 100)
    builder = ps.StreamsBuilder()
    builder.table("in", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("counts"))
    rig = Rig(tmp_path, builder.build())
    rig.write("in", *((f"k{number:02}", "x" * 1000, 1) for number in range(20)))
    loop = rig.running()
    for calls, rows in [(1, 16), (4, 4), (40, 1)]:
        asked = loop.query([ranging(100)] * calls)
        while not asked.done():
            loop.step()
        assert [(len(answer.rows), answer.more) for answer in asked.result()] == [(rows, True)] * calls


def test_a_cancelled_question_does_no_harm(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", *((f"k{number:04}", "x", number + 1) for number in range(2000)))
    loop = rig.running()
    early, late = loop.query([ranging(2000)]), loop.query([ranging(2000)])
    assert early.cancel()
    loop.step()
    assert not late.cancel(), "it is under way"
    while not late.done():
        loop.step()
    assert len(late.result()[0].rows) == 2000
    assert not loop.finished.done()
